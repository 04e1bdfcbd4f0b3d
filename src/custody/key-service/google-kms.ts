import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type KeyServiceContext,
  KeyServiceError,
  type OpenKey,
  type WrappingContext,
} from "./key-service.ts";
import { type Access, ServiceCall } from "./service-call.ts";

const pattern =
  /^gcpkms:\/\/(?:[^/]+\/)?(projects\/[\w.:-]+\/locations\/[\w-]+\/keyRings\/[\w-]+\/cryptoKeys\/[\w-]+(?:\/cryptoKeyVersions\/\d+)?)$/;

const rights: Readonly<Record<string, string>> = {
  ":encrypt": "useToEncrypt",
  ":decrypt": "useToDecrypt",
  ":asymmetricSign": "useToSign",
  "/publicKey": "viewPublicKey",
};

/** Patterns for the errors of Google. */
const dialect = {
  credential: /^401/,
  permission: /^403/,
  missing: /^404/,
  deleted: /destroy/i,
  disabled: /not enabled|disabled/i,
  misfit: /decryption failed/i,
  type: /^400/,
};
const place = "at this path, which ends in a version for a root alone";

/** A key of Google Cloud KMS by its resource name; one that signs has its version. */
export const googleKey: OpenKey = ({ uri, origin }, means) => {
  const [, name = ""] = pattern.exec(uri) ?? [];
  if (name === "") return undefined;
  const usual = uri.startsWith("gcpkms://projects/");
  const url = `${usual ? "https://cloudkms.googleapis.com" : origin}/v1/${name}`;

  const call = ServiceCall.callsTo(means, {
    obtain: () => tokenFor(means),
    url: (act) => `${url}${act}`,
    request: ServiceCall.withBearer,
    fault: (answer, act) => {
      const said = `${Members.of(answer.members["error"])["message"]}`;
      const right = `cloudkms.cryptoKeyVersions.${rights[act]}`;
      return ServiceCall.faultIn(answer, dialect, said, { right, place });
    },
  });

  return {
    uri,
    call,
    unwrap: async (ciphertext, context) => {
      const body = { ...checked("ciphertext", ciphertext), ...boundTo(context) };
      return checkedIn(await call(":decrypt", body), "plaintext");
    },
    sign: async (bytes, { hash = "SHA-256" }) => {
      const octets = await ServiceCall.digestOf(bytes, hash);
      const digest = { [hash.toLowerCase().replace("-", "")]: Base64.format(octets) };
      const answer = await call(":asymmetricSign", { digest, digestCrc32c: crc32c(octets) });
      ServiceCall.requireSameKey(answer["name"] === name);
      // An absent member is as bad as `false`.
      if (answer["verifiedDigestCrc32c"] !== true)
        throw new KeyServiceError("received a digest whose CRC does not verify");
      return checkedIn(answer, "signature");
    },
  };
};

const text = new TextEncoder();

/** The member `additionalAuthenticatedData` that binds a wrapped key to its context, with its CRC. */
export const boundTo = (context: WrappingContext) =>
  checked("additionalAuthenticatedData", text.encode(JSON.stringify(context)));

/**
 * The members of a request with these octets in base64 and their CRC-32C, by which Google KMS notices corruption on
 * the way.
 */
export const checked = (name: string, octets: Bytes) => ({
  [name]: Base64.format(octets),
  [`${name}Crc32c`]: crc32c(octets),
});

/**
 * Reads octets from a response and verifies their CRC-32C.
 * @throws KeyServiceError if they are absent or do not match it.
 */
export function checkedIn(answer: Members, name: string): Bytes {
  const octets = ServiceCall.octetsIn(answer, name);
  if (`${answer[`${name}Crc32c`]}` === crc32c(octets)) return octets;
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

/** Obtains a token by the key of a service account (RFC 7523), or from the machine. */
async function tokenFor({ fetch, clock, credential }: KeyServiceContext): Promise<Access<string>> {
  const given = await credential("gcpkms");
  const ready = ServiceCall.readyToken(given);
  if (ready) return ready;
  const account = { token_uri: "https://oauth2.googleapis.com/token", ...Members.of(given) };
  const names = ["client_email", "private_key", "private_key_id", "token_uri"];
  const [iss, pem = "", kid, aud = ""] = ServiceCall.textsIn(account, names);
  const pkcs8 = ServiceCall.octetsOfPem(pem) ?? new Uint8Array();
  const iat = Math.floor(clock().getTime() / 1000);
  const claims = [
    { alg: "RS256", typ: "JWT", kid },
    { iss, scope, aud, iat, exp: iat + 3600 },
  ].map((part) => Base64.formatUrl(text.encode(JSON.stringify(part))));
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("pkcs8", pkcs8, algorithm, false, ["sign"]);
  const said = claims.join(".");
  const signature = new Uint8Array(await crypto.subtle.sign(algorithm, key, text.encode(said)));
  return ServiceCall.grant(fetch, aud, {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${said}.${Base64.formatUrl(signature)}`,
  });
}
