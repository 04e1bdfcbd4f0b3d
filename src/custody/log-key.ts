import * as z from "zod/mini";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { Checkpoint } from "../tlog/note/checkpoint.ts";
import type { NoteSigner } from "../tlog/note/note.ts";
import { VerifierKey } from "../tlog/note/verifier-key.ts";
import type { LogKeys, OpenedLogKey } from "../tlog/sequencer/storage.ts";
import { type Custodian, type Kek, openKey, sealingKek, sealKey } from "./kek.ts";
import {
  Fields,
  parseRecordJson,
  RecordError,
  recordVersion,
  sealFields,
  type ValuesOf,
} from "./record-fields.ts";

const headFields = {
  version: z.literal(recordVersion),
  /** The origin of the log. */
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  publicKey: Fields.octets,
};
const recordFields = { ...headFields, ...sealFields };
const recordSchema = z.strictObject(recordFields);

type LogKeyRecord = ValuesOf<typeof recordFields>;

/**
 * Creates and opens the key of a log: its own Ed25519 key, sealed under a KEK as an authority's is. Its record is stored
 * beside the entries of the log, because neither is of use without the other.
 */
export function logKeysFor(origin: string, custodian: Custodian): LogKeys {
  return {
    create: async () => {
      const { privateKey, publicKey } = await VerifierKey.generate();
      return sealed(origin, custodian, privateKey, await VerifierKey.raw(publicKey));
    },
    open: async (value) => {
      const record = parseRecord(value);
      const kek = sealingKek(record, { id: origin }, custodian);
      if (kek === custodian.keks[0]) {
        const key = await unwrap(record, kek, false);
        return {
          signer: whileHeld(kek, Checkpoint.createSigner(origin, key, record.publicKey)),
          record: value,
        };
      }
      // The older KEK is about to leave the configuration, so the newest one seals the key now.
      const extractable = await unwrap(record, kek, true);
      return sealed(origin, custodian, extractable, record.publicKey);
    },
  };
}

async function sealed(
  origin: string,
  { trustDomain, keks: [kek] }: Custodian,
  extractableKey: CryptoKey,
  publicKey: Bytes,
): Promise<OpenedLogKey> {
  const head = { version: recordVersion, id: origin, trustDomain, kek: kek.id, publicKey } as const;
  const record = { ...head, ...(await sealKey(extractableKey, kek, boundTo(head))) };
  const signer = Checkpoint.createSigner(origin, await unwrap(record, kek, false), publicKey);
  return { signer: whileHeld(kek, signer), record: formatRecord(record) };
}

/** Wraps a signer so that it signs only while the KEK of its key is held. Otherwise it throws a CaError `kek-unavailable`. */
const whileHeld = (kek: Kek, { key, sign }: NoteSigner): NoteSigner => ({
  key,
  sign: async (text) => {
    // Reading `key` throws if the lease of the KEK has ended.
    if (kek.key.type !== "secret") throw new Error("a KEK that is no secret");
    return sign(text);
  },
});

const unwrap = (record: LogKeyRecord, kek: Kek, extractable: boolean): Promise<CryptoKey> =>
  openKey(record, kek, boundTo(record), { name: "Ed25519" }, extractable);

/** Binds the purpose and every field in the clear to the seal. */
const boundTo = (head: ValuesOf<typeof headFields>): unknown => [
  "rampart log key",
  ...Object.values(Fields.encode(headFields, head)),
];

const formatRecord = (record: LogKeyRecord): string =>
  JSON.stringify(Fields.encode(recordFields, record));

function parseRecord(value: string): LogKeyRecord {
  const parsed = recordSchema.safeParse(parseRecordJson(value));
  if (parsed.success && formatRecord(parsed.data) === value) return parsed.data;
  throw new RecordError("form", "not the key of a log as it was sealed");
}
