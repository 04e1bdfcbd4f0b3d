import { createPublicKey, verify } from "node:crypto";
import { createDigestSigner } from "./digest-signer.ts";
import { createWrappingKey, type PlayedService, playService } from "./key-service.ts";

const ring = "projects/p1/locations/europe-west3/keyRings/mesh/cryptoKeys";
export const googleUri = `gcpkms://${ring}/kek`;
export const googleRootUri = `gcpkms://${ring}/root/cryptoKeyVersions/1`;

const account = { email: "ca@p1.iam.gserviceaccount.com", keyId: "key-1" };
const { publicKey, privateKey } = await crypto.subtle.generateKey(
  {
    name: "RSASSA-PKCS1-v1_5",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  },
  true,
  ["sign", "verify"],
);
const pem = (label: string, der: ArrayBuffer): string =>
  `-----BEGIN ${label}-----\n${Buffer.from(der).toString("base64")}\n-----END ${label}-----\n`;

/** The key of a service account, as Google's console writes it. */
export const googleCredential: string = JSON.stringify({
  type: "service_account",
  private_key_id: account.keyId,
  private_key: pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", privateKey)),
  client_email: account.email,
  token_uri: "https://oauth2.googleapis.com/token",
});
const accountKey = createPublicKey(
  pem("PUBLIC KEY", await crypto.subtle.exportKey("spki", publicKey)),
);

/** CRC32C by a table, for an oracle that shares nothing with the code under test. */
const table = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0x82f63b78 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});
export const crc32cOf = (octets: Uint8Array): string => {
  let crc = 0xffffffff;
  for (const octet of octets) crc = (table[(crc ^ octet) & 0xff] ?? 0) ^ (crc >>> 8);
  return String((crc ^ 0xffffffff) >>> 0);
};

function requireGrant(body: string): void {
  const form = new URLSearchParams(body);
  if (form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer")
    throw new Error("another grant");
  const [head = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
  const isSigned = verify(
    "sha256",
    Buffer.from(`${head}.${claims}`),
    accountKey,
    Buffer.from(signature, "base64url"),
  );
  const { kid } = JSON.parse(Buffer.from(head, "base64url").toString());
  const { iss, aud, scope, iat, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
  const isRight =
    kid === account.keyId &&
    iss === account.email &&
    aud === "https://oauth2.googleapis.com/token" &&
    scope === "https://www.googleapis.com/auth/cloudkms" &&
    exp - iat === 3600;
  if (!isSigned || !isRight) throw new Error("another assertion");
}

/** Google Cloud KMS, by its public reference: it checks every field and every CRC that it gets. */
export async function playGoogle(): Promise<PlayedService> {
  const wrapping = await createWrappingKey();
  const signing = createDigestSigner();
  return playService(async (url, request, body) => {
    if (url.href === "https://oauth2.googleapis.com/token") {
      requireGrant(body);
      return ["token", { access_token: "ya29.token", expires_in: 3599 }];
    }
    if (request.headers.get("authorization") !== "Bearer ya29.token") throw new Error("no token");
    if (url.host !== "cloudkms.googleapis.com") throw new Error(`asked at ${url}`);
    const asked = JSON.parse(body || "{}");
    const octets = (name: string): Buffer => {
      const read = Buffer.from(asked[name], "base64");
      if (asked[`${name}Crc32c`] !== crc32cOf(read)) throw new Error(`CRC of ${name}`);
      return read;
    };
    const answered = (name: string, bytes: Buffer) => ({
      [name]: bytes.toString("base64"),
      [`${name}Crc32c`]: crc32cOf(bytes),
    });
    const act = url.pathname.slice(4 + ring.length);
    switch (act) {
      case "/kek:encrypt": {
        const bound = octets("additionalAuthenticatedData").toString();
        const sealed = await wrapping.encrypt(new Uint8Array(octets("plaintext")), bound);
        const verified = {
          verifiedPlaintextCrc32c: true,
          verifiedAdditionalAuthenticatedDataCrc32c: true,
        };
        return ["encrypt", { ...answered("ciphertext", sealed), ...verified }];
      }
      case "/kek:decrypt": {
        const bound = octets("additionalAuthenticatedData").toString();
        const opened = await wrapping.decrypt(octets("ciphertext"), bound);
        return ["decrypt", opened ? answered("plaintext", opened) : {}];
      }
      case "/root/cryptoKeyVersions/1/publicKey":
        return ["publicKey", { pem: pem("PUBLIC KEY", new Uint8Array(signing.spki).buffer) }];
      case "/root/cryptoKeyVersions/1:asymmetricSign": {
        const digest = Buffer.from(asked.digest.sha256, "base64");
        if (asked.digestCrc32c !== crc32cOf(digest)) throw new Error("CRC of digest");
        const signature = answered("signature", signing.der(digest));
        const name = googleRootUri.slice("gcpkms://".length);
        return ["sign", { ...signature, verifiedDigestCrc32c: true, name }];
      }
      default:
        throw new Error(`asked for ${act}`);
    }
  });
}
