import type { AppendOnlyLog } from "../../ca/issuance/issuance-log.ts";
import { IssuanceLog, type LogPosition } from "../../ca/issuance/issuance-log.ts";
import { recordingIn } from "../../ca/issuance/record-issuance.ts";
import type { LogConfiguration } from "../../config/optional-parts.ts";
import { isRecent } from "../../foundation/caches.ts";
import { type CaError, ConfigurationError, messageOf } from "../../foundation/errors.ts";
import { waitFor } from "../../foundation/pause.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { AppendResult, NamedEntry } from "../../tlog/sequencer/sequencer.ts";
import { PublishedLog } from "../../transport/http/log-routes.ts";
import { isBinding } from "../variables.ts";
import type { ShardState } from "./log-shard.ts";
import { type Bucket, bucketBinding, bucketObjects, isBucket } from "./log-storage.ts";

const shardBinding = "LOG_SHARD";

/** A shard that takes longer to append is treated as down, if there is another. */
const usualAttemptMilliseconds = 1500;

/** A shard that does not report its state within this time counts as refusing entries. */
const longestLookMilliseconds = 5000;

/** How often shards are asked for their state: anybody may request readiness, and each call to a shard is billed. */
const lookEverySeconds = 10;

/** The issuance log of a Worker: one part appends to it, the other reads what is published. */
export interface WorkerLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
}

/** Opens the log of a configuration by the bindings of a Worker. @throws ConfigurationError */
export type OpenWorkerLog = (
  configuration: LogConfiguration,
  environment: Readonly<Record<string, unknown>>,
) => WorkerLog;

/** The part of a Durable Object's namespace that a log needs. */
interface ShardNamespace {
  getByName(name: string): {
    append(origin: string, entry: Bytes, before: readonly NamedEntry[]): Promise<AppendResult>;
    look(origin: string): Promise<ShardState>;
  };
}

/**
 * The log behind a Durable Object for each shard. An isolate keeps to one shard, so that its entries share commits. If
 * that shard refuses an entry or is slow, it tries the next one, once; an entry may thus be in both.
 */
export const openWorkerLog: OpenWorkerLog = (configuration, environment) =>
  openLogWithin(usualAttemptMilliseconds, configuration, environment);

/** {@link openWorkerLog}, with another time for one attempt. */
export function openLogWithin(
  attemptMilliseconds: number,
  configuration: LogConfiguration,
  environment: Readonly<Record<string, unknown>>,
): WorkerLog {
  const { [shardBinding]: namespace, [bucketBinding]: bucket } = environment;
  if (!isBinding<ShardNamespace>(namespace, "getByName") || !isBucket(bucket)) {
    throw new ConfigurationError([
      `LOG_ORIGIN: needs the bindings ${shardBinding} and ${bucketBinding}`,
    ]);
  }
  return {
    issuanceLog: recordingIn(shardedLog(namespace, configuration, attemptMilliseconds)),
    publishedLog: publishedLogIn(bucket, configuration),
  };
}

/** It is one function because appending and looking both change the log's trouble and refusal. */
function shardedLog(
  namespace: ShardNamespace,
  configuration: LogConfiguration,
  attemptMilliseconds: number,
): AppendOnlyLog {
  const { shards } = configuration;
  const home = Math.floor(Math.random() * shards);
  const next = (home + 1) % shards;
  const append = appending(namespace, configuration, attemptMilliseconds);
  const look = looking(namespace, configuration);
  let lookedAt: Date | undefined;
  let trouble: string | undefined;
  let refusal: string | undefined;
  // No shard has confirmed the entry, so this isolate issues nothing for now.
  const refused = (error: unknown): CaError => {
    refusal = trouble;
    return IssuanceLog.toUnavailable(error);
  };
  return {
    mode: configuration.mode,
    append: async (entry, _signal, authorities = []) => {
      try {
        const position = await append(home, entry, authorities);
        trouble = refusal = undefined;
        return position;
      } catch (error) {
        trouble = `the issuance log: ${messageOf(error)}`;
        if (next === home) throw refused(error);
        try {
          // The first shard may have the entry, too. Readers recognize that by the serial number.
          const position = await append(next, entry, authorities);
          refusal = undefined;
          return position;
        } catch (again) {
          throw refused(again);
        }
      }
    },
    look: async (now) => {
      if (isRecent(lookedAt, lookEverySeconds, now)) return;
      lookedAt = now;
      const { refusal: refused, trouble: unpublished } = await look(home);
      const why = refused ?? unpublished;
      trouble = why === undefined ? undefined : `the issuance log: ${why}`;
      const isTaken =
        refused === undefined || (next !== home && (await look(next)).refusal === undefined);
      refusal = isTaken ? undefined : trouble;
    },
    refusal: () => refusal,
    troubles: () => (trouble === undefined ? [] : [trouble]),
  };
}

/** Creates a function that asks a shard for its state and never rejects. */
function looking(
  namespace: ShardNamespace,
  { origin }: LogConfiguration,
): (shard: number) => Promise<ShardState> {
  return async (shard) => {
    const name = `${origin}/${shard}`;
    try {
      return await withinTime(namespace.getByName(name).look(name), longestLookMilliseconds);
    } catch (error) {
      return { refusal: messageOf(error) };
    }
  };
}

type Append = (
  shard: number,
  entry: Bytes,
  authorities: readonly NamedEntry[],
) => Promise<LogPosition>;

function appending(
  namespace: ShardNamespace,
  { origin, shards }: LogConfiguration,
  attemptMilliseconds: number,
): Append {
  // The authorities that the shard already has, which need not be sent again.
  const sent = new Set<string>();
  return async (shard, entry, authorities) => {
    const name = `${origin}/${shard}`;
    const before = authorities.filter((each) => !sent.has(`${shard} ${each.name}`));
    const answer = namespace.getByName(name).append(name, entry, before);
    // A shard without another beside it may take as long as the caller waits: asking again would not help.
    const result = await (shards === 1 ? answer : withinTime(answer, attemptMilliseconds));
    if (!("index" in result)) throw IssuanceLog.unavailable(result.detail);
    for (const each of before) sent.add(`${shard} ${each.name}`);
    return { origin: name, index: result.index };
  };
}

const publishedLogIn = (bucket: Bucket, configuration: LogConfiguration): PublishedLog =>
  PublishedLog.publishStored({
    ...configuration,
    names: () => Array.from({ length: configuration.shards }, (_, shard) => String(shard)),
    read: (shard, path) => bucketObjects(bucket, `${configuration.origin}/${shard}`).read(path),
  });

async function withinTime<Answer>(answer: Promise<Answer>, milliseconds: number): Promise<Answer> {
  const inTime = await waitFor(answer, milliseconds);
  if (inTime === undefined) throw new Error("the shard is too slow");
  return inTime;
}
