import * as z from "zod/mini";
import type { LogMode } from "../ca/issuance/issuance-log.ts";
import { durationSeconds, parsedText } from "../foundation/text.ts";
import { inceptionDate } from "./signer-table.ts";

/** The issuance log of a CA, and who may read it. */
export interface LogConfiguration {
  /** Each shard of the log is a log of its own, with its number behind this origin. */
  readonly origin: string;
  readonly mode: LogMode;
  readonly inceptionDate: string | undefined;
  /** The time from one publication to the next. */
  readonly intervalSeconds: number;
  /** How many Durable Objects take entries; on Node every process is a shard. */
  readonly shards: number;
  /** A tlog-policy: the witnesses that are asked for cosignatures. */
  readonly witnesses: string | undefined;
  /** Bearer tokens of readers. */
  readonly readers: readonly string[];
  /** Whether anybody may read the checkpoint and the hashes. Entries always need a token. */
  readonly hasPublicTiles: boolean;
}

/** Visible ASCII without a plus and with no slash at its end: an origin also names a key (C2SP signed-note). */
const originForm = /^[\x21-\x2a\x2c-\x7e]*[\x21-\x2a\x2c-\x2e\x30-\x7e]$/;

const origin = z
  .string()
  .check(
    z.maxLength(200),
    z.regex(originForm, "must be a name such as log.example.com/2026, without white space and +"),
  );

const interval = z.pipe(
  durationSeconds,
  z.int().check(z.minimum(1, "must be at least 1s"), z.maximum(3600, "must not exceed 1h")),
);

/** Long enough that nobody guesses one. */
const tokenForm = /^[\x21-\x2b\x2d-\x7e]{32,512}$/;

const readers = parsedText((text) => {
  const tokens = text.split(",").map((token) => token.trim());
  return tokens.every((token) => tokenForm.test(token)) ? tokens : undefined;
}, "must be bearer tokens of 32 characters or more, separated by commas");

/** The keys about the log, as operators write them. */
export const logKeys = {
  LOG_ORIGIN: z.optional(origin),
  LOG_MODE: z._default(z.enum(["required", "best-effort"]), "required"),
  LOG_INCEPTION_DATE: z.optional(inceptionDate),
  LOG_INTERVAL: z.prefault(interval, "10s"),
  LOG_SHARDS: z._default(z.int().check(z.minimum(1), z.maximum(64)), 1),
  LOG_WITNESSES: z.optional(z.string().check(z.maxLength(64 * 1024))),
  LOG_TILES: z._default(z.enum(["private", "public"]), "private"),
  LOG_READERS: z.optional(readers),
};

/** The values of these keys. */
type LogValues = z.infer<z.ZodMiniObject<typeof logKeys>>;

/** @returns `undefined` when no origin is given: then nothing is logged. */
export function logConfiguration(
  form: LogValues & { readonly INCEPTION_DATE?: string | undefined },
): LogConfiguration | undefined {
  if (form.LOG_ORIGIN === undefined) return undefined;
  return {
    origin: form.LOG_ORIGIN,
    mode: form.LOG_MODE,
    inceptionDate: form.LOG_INCEPTION_DATE ?? form.INCEPTION_DATE,
    intervalSeconds: form.LOG_INTERVAL,
    shards: form.LOG_SHARDS,
    witnesses: form.LOG_WITNESSES,
    readers: form.LOG_READERS ?? [],
    hasPublicTiles: form.LOG_TILES === "public",
  };
}
