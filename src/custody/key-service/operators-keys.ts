import { CaError } from "../../foundation/errors.ts";
import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { transform } from "./azure-key-vault.ts";
import * as google from "./google-kms.ts";
import { contextOf, markOf, WrappedKek } from "./kek-lease.ts";
import {
  firstOf,
  KeyServiceError,
  type KeyServices,
  type ServiceKey,
  type ServiceName,
} from "./key-service.ts";
import { ServiceCall } from "./service-call.ts";
import { rootFor, wrongKind } from "./service-root.ts";
import * as transit from "./vault-transit.ts";

/** The acts of a key service that only operators' verbs need, apart so that no Worker loads them. */
interface OperatorsActs {
  /** What the service calls the types of keys that fit. */
  readonly types: string;
  readonly wrap: (key: ServiceKey, octets: Bytes, context: Context) => Promise<Bytes>;
  /** SubjectPublicKeyInfo, DER, of a key that signs. */
  readonly publicKey: (key: ServiceKey) => Promise<Bytes>;
}
type Context = ReturnType<typeof contextOf>;

const actsOf: Readonly<Record<ServiceName, OperatorsActs>> = {
  awskms: {
    types: "a KEK takes ENCRYPT_DECRYPT, a root SIGN_VERIFY",
    wrap: async ({ call }, octets, EncryptionContext) => {
      const body = { Plaintext: Base64.format(octets), EncryptionContext };
      return ServiceCall.octetsIn(await call("Encrypt", body), "CiphertextBlob");
    },
    publicKey: async ({ call }) => ServiceCall.octetsIn(await call("GetPublicKey"), "PublicKey"),
  },
  gcpkms: {
    types: "a KEK takes ENCRYPT_DECRYPT, a root ASYMMETRIC_SIGN",
    // The caller unwraps the result at once and compares it, which shows more than the service's own statement that
    // it has received all octets.
    wrap: async ({ call }, octets, context) => {
      const body = { ...google.checked("plaintext", octets), ...google.boundTo(context) };
      return google.checkedIn(await call(":encrypt", body), "ciphertext");
    },
    publicKey: async ({ call }) =>
      ServiceCall.octetsIn(await call("/publicKey"), "pem", ServiceCall.octetsOfPem),
  },
  azurekms: {
    types: "a KEK takes RSA, a root EC P-256, P-384 or RSA",
    // RSA-OAEP binds no context, and anybody who has the public key can wrap. Therefore the KEK's mark binds the
    // context.
    wrap: ({ call }, octets) => transform(call, "/wrapkey", "RSA-OAEP-256", octets),
    publicKey: async ({ call }) => spkiOf(Members.of((await call(""))["key"])),
  },
  hashivault: {
    types: "a KEK takes aes256-gcm96, a root ecdsa-p256, ecdsa-p384 or RSA",
    wrap: async ({ call }, octets, context) => {
      const body = { plaintext: Base64.format(octets), associated_data: transit.boundTo(context) };
      const wrapped = ServiceCall.textOf(await call("encrypt/*", body), "ciphertext");
      return new TextEncoder().encode(wrapped) as Bytes;
    },
    publicKey: async ({ call, uri }) => {
      const { keys, latest_version } = await call("keys/*");
      const version = `${/[?&]version=(\d+)/.exec(uri)?.[1] ?? latest_version}`;
      const key = Members.of(keys)[version];
      if (keys === undefined) throw new KeyServiceError("answered without keys");
      if (key === undefined) throw new KeyServiceError(`has no version ${version} of the key`);
      // The version of a key that wraps is a number instead of an object.
      if (typeof key === "number") throw new KeyServiceError(wrongKind);
      return ServiceCall.octetsIn(Members.of(key), "public_key", ServiceCall.octetsOfPem);
    },
  },
};

/** @throws KeyServiceError; for a key of the wrong use or type, it lists the types that the service accepts. */
function operate<T>(key: ServiceKey, work: (acts: OperatorsActs) => Promise<T>): Promise<T> {
  const acts = actsOf[key.uri.split(":", 1)[0] as ServiceName];
  const orTypes = (error: unknown): never => {
    const isOfType = error instanceof KeyServiceError && error.message.includes("use or type");
    throw isOfType ? new KeyServiceError(`${error.message}: ${acts.types}`) : error;
  };
  return firstOf([key], () => work(acts).catch(orTypes));
}

/** SubjectPublicKeyInfo of a JWK, which Managed HSM marks by its type. @throws KeyServiceError */
async function spkiOf({ kty: type, crv, x, y, n, e }: JsonWebKey): Promise<Bytes> {
  const kty = `${type}`.replace("-HSM", "");
  const algorithm =
    kty === "EC"
      ? { name: "ECDSA", namedCurve: `${crv}` }
      : { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const imported = await crypto.subtle
    .importKey("jwk", { kty, crv, x, y, n, e } as JsonWebKey, algorithm, true, ["verify"])
    .catch((cause: unknown) => {
      throw new KeyServiceError(wrongKind, { cause });
    });
  return new Uint8Array((await crypto.subtle.exportKey("spki", imported)) as ArrayBuffer);
}

/**
 * Wraps a KEK by a key, and opens it again as the CA will.
 * @throws ConfigurationError for a URI of no key, KeyServiceError if the key does not wrap, Error if it does not open
 *   what it has wrapped.
 */
export async function wrapKek(
  { id, octets }: { readonly id: string; readonly octets: Bytes },
  uri: string,
  trustDomain: string,
  keyServices: KeyServices,
): Promise<WrappedKek> {
  const key = keyServices(uri);
  const context = contextOf(trustDomain, id);
  const ciphertext = await operate(key, ({ wrap }) => wrap(key, octets, context));
  const mark = await markOf(octets, trustDomain, id);
  const wrapped = { id, wrappings: [{ uri, ciphertext }], mark };
  (await WrappedKek.open(wrapped, trustDomain, keyServices)).fill(0);
  return wrapped;
}

/** Makes the certificate of a root, which its own key in a service signs. @throws KeyServiceError */
export async function createServiceRoot(
  key: ServiceKey,
  trustDomain: TrustDomain,
  lifetimeSeconds: number,
  now: Date,
): Promise<Bytes> {
  const publicKey = await operate(key, (acts) =>
    acts.publicKey(key).then(SubjectPublicKey.parse).catch(orWrongKind),
  );
  return rootFor([key], publicKey, { trustDomain, lifetimeSeconds, now });
}

/** Replaces the error about a public key that no authority may have, because its words are those for a CSR. */
function orWrongKind(error: unknown): never {
  const isOfKey = error instanceof CaError || error instanceof DerError;
  throw isOfKey ? new KeyServiceError(wrongKind, { cause: error }) : error;
}
