import { Base64 } from "../pki/encoding/base64.ts";
import type { OpenTokenKey } from "../pki/jose/token-key.ts";
import { SignatureAlgorithm } from "../pki/signature-algorithm.ts";
import { SubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import type { StoredRecord } from "./authority-store.ts";
import { type Custodian, type Kek, openKey, sealKey } from "./kek.ts";
import { recordVersion } from "./record-fields.ts";
import type { Statements } from "./record-kinds.ts";
import { openContent, Statement } from "./statement.ts";

/** The kinds of statement that carry a private key (PKCS#8). The key is sealed by itself, so that listing them opens no key. */
type KeyedName = "request" | "tokenKey";

/** The value of a keyed statement without its sealed key. */
type Unkeyed<K extends KeyedName> = Omit<Statements[K], "iv" | "sealedKey">;

/** The purpose of the seal of a key, the fields in the clear that it binds, and the key's public part. */
interface KeyKind<Value> {
  readonly purpose: string;
  readonly fields: (value: Value) => object;
  readonly publicKeyOf: (value: Value) => SubjectPublicKey;
}

const keyKinds: { readonly [K in KeyedName]: KeyKind<Unkeyed<K>> } = {
  request: {
    purpose: "rampart authority request",
    fields: ({ requestedAt, csr }) => ({ requestedAt, csr: Base64.format(csr) }),
    publicKeyOf: ({ publicKey }) => publicKey,
  },
  tokenKey: {
    purpose: "rampart token key",
    fields: ({ schedule: { publishedFrom, signsFrom, signsUntil, retiresAt }, spki }) => ({
      instants: [publishedFrom, signsFrom, signsUntil, retiresAt],
      spki: Base64.format(spki),
    }),
    publicKeyOf: ({ spki }) => SubjectPublicKey.parse(spki),
  },
};

function boundTo<K extends KeyedName>(
  kind: K,
  value: Unkeyed<K> & { readonly id: string },
  trustDomain: string,
  kek: Kek,
): unknown {
  const { purpose, fields }: KeyKind<Unkeyed<K>> = keyKinds[kind];
  return [purpose, recordVersion, { id: value.id, trustDomain, kek: kek.id, ...fields(value) }];
}

/** Statements that carry a private key, sealed. */
export const KeyedStatement = {
  /** Makes the record of a statement: its private key is sealed with AES-256-GCM, and a MAC covers all of it. */
  async seal<K extends KeyedName>(
    kind: K,
    value: Unkeyed<K> & { readonly id: string },
    privateKey: CryptoKey,
    custodian: Custodian,
  ): Promise<StoredRecord> {
    const [kek] = custodian.keks;
    const sealed = await sealKey(privateKey, kek, boundTo(kind, value, custodian.trustDomain, kek));
    return Statement.seal(kind, { ...value, ...sealed } as unknown as Statements[K], custodian);
  },

  /** Opens a key as one that can be exported, for a backup or for the record of an authority. @throws RecordError if it does not open. */
  async open<K extends KeyedName>(
    kind: K,
    stored: StoredRecord,
    custodian: Custodian,
  ): Promise<{ readonly value: Statements[K]; readonly privateKey: CryptoKey }> {
    const { value, kek, bound, algorithm } = await parse(kind, stored, custodian);
    return {
      value,
      privateKey: await openKey(value, kek, bound, algorithm.importParameters, true),
    };
  },

  /** Seals a keyed statement anew under the newest KEK; `undefined` if that KEK seals it already. @throws RecordError if it does not open. */
  async reseal<K extends KeyedName>(
    kind: K,
    stored: StoredRecord,
    custodian: Custodian,
  ): Promise<StoredRecord | undefined> {
    const { kek } = await openContent(stored, custodian);
    if (kek === custodian.keks[0]) return undefined;
    const { value, privateKey } = await KeyedStatement.open(kind, stored, custodian);
    return KeyedStatement.seal(kind, value, privateKey, custodian);
  },

  /** Opens a key for tokens, which no code can export. @throws RecordError if it does not open. */
  async openTokenKey(stored: StoredRecord, custodian: Custodian): Promise<OpenTokenKey> {
    const { value, kek, bound, algorithm } = await parse("tokenKey", stored, custodian);
    const { iv, sealedKey, ...key } = value;
    const sealed = { iv, sealedKey };
    return {
      ...key,
      privateKey: await openKey(sealed, kek, bound, algorithm.importParameters, false),
    };
  },
};

async function parse<K extends KeyedName>(kind: K, stored: StoredRecord, custodian: Custodian) {
  const value = await Statement.open(kind, stored, custodian);
  const { kek } = await openContent(stored, custodian);
  const { publicKeyOf }: KeyKind<Unkeyed<K>> = keyKinds[kind];
  const bound = boundTo(kind, value, custodian.trustDomain, kek);
  return { value, kek, bound, algorithm: SignatureAlgorithm.of(publicKeyOf(value)) };
}
