import { CaError } from "../../foundation/errors.ts";
import { toBase64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { parseSubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { markOf } from "../kek.ts";
import { transform } from "./azure-key-vault.ts";
import * as google from "./google-kms.ts";
import { contextOf, openWrapped, type WrappedKek } from "./kek-lease.ts";
import { KeyServiceError, type KeyServices, type ServiceKey } from "./key-service.ts";
import { membersOf, octetsIn, octetsOfPem, textOf } from "./service-call.ts";
import { rootFor, wrongKind } from "./service-root.ts";
import * as transit from "./vault-transit.ts";

/** What an operator's verbs have a service do, which no CA does: a Worker has nothing of it. */
interface OperatorsActs {
  readonly wrap: (key: ServiceKey, octets: Bytes, context: Context) => Promise<Bytes>;
  /** SubjectPublicKeyInfo, DER, of a key that signs. */
  readonly publicKey: (key: ServiceKey) => Promise<Bytes>;
}
type Context = ReturnType<typeof contextOf>;

const acts = new Map<string, OperatorsActs>([
  [
    "awskms",
    {
      wrap: async ({ call }, octets, EncryptionContext) => {
        const body = { Plaintext: toBase64(octets), EncryptionContext };
        return octetsIn(await call("Encrypt", body), "CiphertextBlob");
      },
      publicKey: async ({ call }) => octetsIn(await call("GetPublicKey"), "PublicKey"),
    },
  ],
  [
    "gcpkms",
    {
      // What wraps opens at once, and compares: that tells more than the service's word that it got all.
      wrap: async ({ call }, octets, context) => {
        const body = { ...google.checked("plaintext", octets), ...google.boundTo(context) };
        return google.checkedIn(await call(":encrypt", body), "ciphertext");
      },
      publicKey: async ({ call }) => octetsIn(await call("/publicKey"), "pem", octetsOfPem),
    },
  ],
  [
    "azurekms",
    {
      // RSA-OAEP binds no context, and whoever has the public key can wrap: the mark of a KEK binds it.
      wrap: ({ call }, octets) => transform(call, "/wrapkey", "RSA-OAEP-256", octets),
      publicKey: async ({ call }) => spkiOf(membersOf((await call(""))["key"])),
    },
  ],
  [
    "hashivault",
    {
      wrap: async ({ call }, octets, context) => {
        const body = { plaintext: toBase64(octets), associated_data: transit.boundTo(context) };
        const wrapped = textOf(await call("encrypt/*", body), "ciphertext");
        return new TextEncoder().encode(wrapped) as Bytes;
      },
      publicKey: async ({ call, uri }) => {
        const { keys, latest_version } = await call("keys/*");
        const version = /[?&]version=(\d+)/.exec(uri)?.[1] ?? latest_version;
        return octetsIn(membersOf(membersOf(keys)[`${version}`]), "public_key", octetsOfPem);
      },
    },
  ],
]);

function actsOn({ uri }: ServiceKey): OperatorsActs {
  const found = acts.get(uri.split(":", 1)[0] ?? "");
  if (found) return found;
  throw new Error("a key of an unknown service");
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

/** Wraps a KEK by a key, and opens it again as the CA will. @throws KeyServiceError */
export async function wrapKek(
  { id, octets }: { readonly id: string; readonly octets: Bytes },
  uri: string,
  trustDomain: string,
  keyServices: KeyServices,
): Promise<WrappedKek> {
  const key = keyServices(uri);
  const ciphertext = await actsOn(key).wrap(key, octets, contextOf(trustDomain, id));
  const mark = await markOf(octets, trustDomain, id);
  const wrapped = { id, wrappings: [{ uri, ciphertext }], mark };
  (await openWrapped(wrapped, trustDomain, keyServices)).fill(0);
  return wrapped;
}

/** Makes the certificate of a root, which its own key in a service signs. @throws KeyServiceError */
export async function createServiceRoot(
  key: ServiceKey,
  trustDomain: TrustDomain,
  lifetimeSeconds: number,
  now: Date,
): Promise<Bytes> {
  const publicKey = await actsOn(key).publicKey(key).then(parseSubjectPublicKey).catch(orWrongKind);
  return rootFor([key], publicKey, { trustDomain, lifetimeSeconds, now });
}

/** No request has such a key, so the sentence of one would be of no use. */
function orWrongKind(error: unknown): never {
  throw error instanceof CaError ? new KeyServiceError(wrongKind, { cause: error }) : error;
}
