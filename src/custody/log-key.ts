import * as z from "zod/mini";
import { toBase64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { createLogSigner } from "../tlog/note/checkpoint.ts";
import { generateEd25519, rawPublicKey } from "../tlog/note/verifier-key.ts";
import type { LogKeys, OpenedLogKey } from "../tlog/sequencer/storage.ts";
import { octets, parseJson, RecordError, recordVersion } from "./authority-record.ts";
import type { Kek, KekRing } from "./kek.ts";
import { sealingKek } from "./sealed-head.ts";

const recordForm = z.strictObject({
  version: z.literal(recordVersion),
  /** The origin of the log. */
  id: z.string(),
  trustDomain: z.string(),
  kek: z.string(),
  publicKey: octets,
  iv: octets,
  sealedKey: octets,
});

type LogKeyRecord = z.infer<typeof recordForm>;
type LogKeyHead = Omit<LogKeyRecord, "iv" | "sealedKey">;

/**
 * The key of a log at rest: its own Ed25519 key, sealed under a KEK as an authority's is. It rests beside
 * the entries of its log, because neither is of use without the other.
 */
export function logKeysFor(origin: string, trustDomain: TrustDomain, keks: KekRing): LogKeys {
  return {
    create: async () => {
      const { privateKey, publicKey } = await generateEd25519();
      return sealed(origin, trustDomain, keks, privateKey, await rawPublicKey(publicKey));
    },
    open: async (value) => {
      const record = parseRecord(value);
      const kek = sealingKek(record, { id: origin }, trustDomain, keks);
      if (kek === keks[0]) {
        const signer = createLogSigner(origin, await unwrap(record, kek, false), record.publicKey);
        return { signer, record: value };
      }
      // An older KEK is about to leave the configuration.
      const extractable = await unwrap(record, kek, true);
      return sealed(origin, trustDomain, keks, extractable, record.publicKey);
    },
  };
}

async function sealed(
  origin: string,
  trustDomain: TrustDomain,
  [kek]: KekRing,
  extractableKey: CryptoKey,
  publicKey: Bytes,
): Promise<OpenedLogKey> {
  const head: LogKeyHead = {
    version: recordVersion,
    id: origin,
    trustDomain,
    kek: kek.id,
    publicKey,
  };
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const sealedKey = await crypto.subtle.wrapKey("pkcs8", extractableKey, kek.key, gcm(head, iv));
  const record = { ...head, iv, sealedKey: new Uint8Array(sealedKey) };
  const signer = createLogSigner(origin, await unwrap(record, kek, false), publicKey);
  return { signer, record: formatRecord(record) };
}

async function unwrap(
  { iv, sealedKey, ...head }: LogKeyRecord,
  kek: Kek,
  extractable: boolean,
): Promise<CryptoKey> {
  return crypto.subtle
    .unwrapKey("pkcs8", sealedKey, kek.key, gcm(head, iv), "Ed25519", extractable, ["sign"])
    .catch((error: unknown) => {
      throw new RecordError("seal", "the seal does not fit the log's key and the KEK", error);
    });
}

/** Binds the purpose and every field in the clear to the seal. */
function gcm(head: LogKeyHead, iv: Bytes): AesGcmParams {
  const { version, id, trustDomain, kek, publicKey } = head;
  const bound = ["rampart log key", version, id, trustDomain, kek, toBase64(publicKey)];
  const additionalData = new TextEncoder().encode(JSON.stringify(bound)) as Bytes;
  return { name: "AES-GCM", iv, additionalData };
}

function formatRecord({ version, id, trustDomain, kek, ...rest }: LogKeyRecord): string {
  const [publicKey, iv, sealedKey] = [rest.publicKey, rest.iv, rest.sealedKey].map(toBase64);
  return JSON.stringify({ version, id, trustDomain, kek, publicKey, iv, sealedKey });
}

function parseRecord(value: string): LogKeyRecord {
  const parsed = recordForm.safeParse(parseJson(value));
  if (parsed.success && formatRecord(parsed.data) === value) return parsed.data;
  throw new RecordError("form", "not the key of a log as it was sealed");
}
