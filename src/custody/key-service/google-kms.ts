import { isSafeToFetch } from "../../foundation/text.ts";
import { toBase64, toBase64Url } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type Answer,
  anotherKey,
  callsWithToken,
  digestOf,
  faultIn,
  grant,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  octetsOfPem,
  parseCredential,
  remembered,
  type ServiceKey,
  tokenInCredential,
  type WrappingContext,
} from "./key-service.ts";

const form =
  /^gcpkms:\/\/(?:[^/]+\/)?(projects\/[\w.:-]+\/locations\/[\w-]+\/keyRings\/[\w-]+\/cryptoKeys\/[\w-]+(?:\/cryptoKeyVersions\/\d+)?)$/;

/** A key of Google Cloud KMS by its resource name; one that signs has its version. */
export function googleKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const [, name = ""] = form.exec(place.uri) ?? [];
  if (name === "") return undefined;
  const usual = place.uri.startsWith("gcpkms://projects/");
  const url = `${usual ? "https://cloudkms.googleapis.com" : place.origin}/v1/${name}`;
  const tokenOf = remembered(means.clock, () => tokenFor(means));

  const call = callsWithToken(means, { url: (act) => `${url}${act}`, tokenOf, faultOf });

  const bound = (context: WrappingContext) =>
    checked("additionalAuthenticatedData", new TextEncoder().encode(JSON.stringify(context)));
  return {
    uri: place.uri,
    // What wraps opens at once, and compares: that tells more than the service's word that it got all.
    wrap: async (octets, context) =>
      checkedIn(
        await call(":encrypt", { ...checked("plaintext", octets), ...bound(context) }),
        "ciphertext",
      ),
    unwrap: async (ciphertext, context) =>
      checkedIn(
        await call(":decrypt", { ...checked("ciphertext", ciphertext), ...bound(context) }),
        "plaintext",
      ),
    publicKey: async () => octetsIn(await call("/publicKey"), "pem", octetsOfPem),
    sign: async (bytes, { hash = "SHA-256" }) => {
      const octets = await digestOf(bytes, hash);
      const digest = { [hash.toLowerCase().replace("-", "")]: toBase64(octets) };
      const answer = await call(":asymmetricSign", { digest, digestCrc32c: crc32c(octets) });
      if (membersOf(answer)["name"] !== name) throw new KeyServiceError("answered for another key");
      // An answer that does not say so is as bad as one that says no.
      if (membersOf(answer)["verifiedDigestCrc32c"] !== true)
        throw new KeyServiceError("received a digest whose CRC does not verify");
      return checkedIn(answer, "signature");
    },
  };
}

const checked = (name: string, octets: Bytes) => ({
  [name]: toBase64(octets),
  [`${name}Crc32c`]: crc32c(octets),
});

function checkedIn(answer: unknown, name: string): Bytes {
  const octets = octetsIn(answer, name);
  if (`${membersOf(answer)[`${name}Crc32c`]}` === crc32c(octets)) return octets;
  throw new KeyServiceError(`answered a ${name} whose CRC does not verify`);
}

/** CRC32C (Castagnoli) in decimal, as Google's JSON has 64-bit integers. */
function crc32c(octets: Uint8Array): string {
  let crc = -1;
  for (const octet of octets) {
    crc ^= octet;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return String(~crc >>> 0);
}

const scope = "https://www.googleapis.com/auth/cloudkms";

/** By the key of a service account (RFC 7523), or a token that the machine has. */
async function tokenFor({ fetch, clock, credential }: KeyServiceMeans) {
  const json = parseCredential(await credential("gcpkms")) ?? {};
  const ready = tokenInCredential(json);
  if (ready) return ready;
  const { client_email, private_key, private_key_id, token_uri } = json;
  const pkcs8 = octetsOfPem(`${private_key}`);
  const aud = `${token_uri ?? "https://oauth2.googleapis.com/token"}`;
  if (!(pkcs8 && typeof client_email === "string" && isSafeToFetch(aud)))
    throw new KeyServiceError(
      "cannot be asked: its credential must be the key of a service account",
    );
  const iat = Math.floor(clock().getTime() / 1000);
  const parts = [
    { alg: "RS256", typ: "JWT", kid: private_key_id },
    { iss: client_email, scope, aud, iat, exp: iat + 3600 },
  ].map((part) => toBase64Url(new TextEncoder().encode(JSON.stringify(part))));
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, algorithm, false, ["sign"]);
  const text = new TextEncoder().encode(parts.join("."));
  const signature = new Uint8Array(await crypto.subtle.sign(algorithm, key, text));
  return grant(fetch, aud, {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${parts.join(".")}.${toBase64Url(signature)}`,
  });
}

const rights: Readonly<Record<string, string>> = {
  ":encrypt": "useToEncrypt",
  ":decrypt": "useToDecrypt",
  ":asymmetricSign": "useToSign",
  "/publicKey": "viewPublicKey",
};

function faultOf(answer: Answer, act: string): KeyServiceError {
  const said = `${membersOf(membersOf(answer.json)["error"])["message"]}`;
  return faultIn(answer, said, [
    [/^401/, "refuses the credential, or the clock of this machine"],
    [/^403/, `does not let this credential: grant cloudkms.cryptoKeyVersions.${rights[act]}`],
    [/^404/, "has no such key in this project and location"],
    [/destroy/i, "has destroyed the key, or will"],
    [/not enabled|disabled/i, "has disabled the key"],
    [/decryption failed/i, anotherKey],
    [/^400/, "has a key of another use or type, or refuses the request"],
  ]);
}
