import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { toBase64 } from "../pki/encoding/base64.ts";
import type { NewTokenKey, OpenTokenKey, TokenKey } from "../pki/jose/token-key.ts";
import { signatureAlgorithmOf } from "../pki/signature-algorithm.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { parseSubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import type { StoredRecord } from "./authority-store.ts";
import { type Kek, type KekRing, openKey, refuseSeal, sealKey, sealParameters } from "./kek.ts";
import { recordVersion } from "./record-fields.ts";
import { openContent, openStatement, sealStatement } from "./statement.ts";

/** Seals a key for tokens: a statement, whose MAC covers all of it, with the private key under AES-256-GCM. */
export async function sealTokenKey(
  { key, extractablePrivateKey }: NewTokenKey,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord> {
  const [kek] = keks;
  const sealed = await sealKey(extractablePrivateKey, kek, boundTo(key, trustDomain, kek));
  return sealStatement("tokenKey", { ...key, ...sealed }, trustDomain, keks);
}

/** The purpose of the key's seal, and every field in the clear. */
function boundTo({ id, schedule, spki }: TokenKey, trustDomain: TrustDomain, kek: Kek): unknown {
  const { publishedFrom, signsFrom, signsUntil, retiresAt } = schedule;
  const instants = [publishedFrom, signsFrom, signsUntil, retiresAt];
  const head = { id, trustDomain, kek: kek.id, instants, spki: toBase64(spki) };
  return ["rampart token key", recordVersion, head];
}

/** Opens a key for tokens. No code can export it. @throws RecordError */
export async function openTokenKey(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
  cryptoProvider: CryptoProvider,
): Promise<OpenTokenKey> {
  const { iv, sealedKey, ...key } = await openStatement("tokenKey", stored, trustDomain, keks);
  const { kek } = await openContent(stored, trustDomain, keks);
  const parameters = sealParameters(iv, boundTo(key, trustDomain, kek));
  const wrapped = { octets: sealedKey, wrappingKey: kek.key, parameters };
  const signingKey = await cryptoProvider
    .unwrapSigningKey(wrapped, signatureAlgorithmOf(parseSubjectPublicKey(key.spki)))
    .catch(refuseSeal);
  return { ...key, signingKey };
}

/** Opens a key for tokens as one that can be exported, for a backup. @throws RecordError */
export async function openExtractableTokenKey(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<NewTokenKey> {
  const { iv, sealedKey, ...key } = await openStatement("tokenKey", stored, trustDomain, keks);
  const { kek } = await openContent(stored, trustDomain, keks);
  const { importParameters } = signatureAlgorithmOf(parseSubjectPublicKey(key.spki));
  const bound = boundTo(key, trustDomain, kek);
  const extractablePrivateKey = await openKey(
    { iv, sealedKey },
    kek,
    bound,
    importParameters,
    true,
  );
  return { key, extractablePrivateKey };
}

/** Seals a key for tokens anew under the newest KEK; `undefined` if that KEK seals it already. @throws RecordError */
export async function resealTokenKey(
  stored: StoredRecord,
  trustDomain: TrustDomain,
  keks: KekRing,
): Promise<StoredRecord | undefined> {
  const { kek } = await openContent(stored, trustDomain, keks);
  if (kek === keks[0]) return undefined;
  return sealTokenKey(await openExtractableTokenKey(stored, trustDomain, keks), trustDomain, keks);
}
