import { AwsV4Signer } from "aws4fetch";
import { createDigestSigner } from "./digest-signer.ts";
import {
  createServiceSigningKey,
  createWrappingKey,
  type PlayedService,
  playService,
  type SigningKind,
} from "./key-service.ts";

export const awsKeyId =
  "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const awsAlias = awsKeyId.replace(/key\/.*/, "alias/mesh");
export const awsUri = `awskms:///${awsKeyId}`;
export const awsAliasUri = `awskms:///${awsAlias}`;
export const awsCredential = "AKIAEXAMPLE:secret/of+the+test";

/** The keys that sign. */
const awsSigningIds = [1, 2].map((n) => awsKeyId.replace("1234abcd", `0000000${n}`));
export const awsRootUris = awsSigningIds.map((id) => `awskms:///${id}`);

const signingAlgorithms: Readonly<Record<SigningKind, string>> = {
  "EC-P256": "ECDSA_SHA_256",
  "EC-P384": "ECDSA_SHA_384",
  "RSA-2048": "RSASSA_PKCS1_V1_5_SHA_256",
};

/** A fault in the words of AWS KMS. */
export const awsFault = (code: string, message = "", status = 400) => ({
  status,
  body: { __type: code, message },
});

/** In octets, of a message that is no digest (AWS KMS API Reference, Sign). */
const longestMessage = 4096;

/** A key that signs digests too, where it is of P-256. */
async function createSigningKey(kind: SigningKind) {
  const noDigests = async (): Promise<Buffer> => Promise.reject(new Error("a digest"));
  if (kind !== "EC-P256") {
    return { ...(await createServiceSigningKey(kind)), signDigest: noDigests };
  }
  const { spki, der } = createDigestSigner();
  const sign = async (octets: Uint8Array<ArrayBuffer>): Promise<Buffer> =>
    der(new Uint8Array(await crypto.subtle.digest("SHA-256", octets)));
  return { spki, sign, signDigest: async (digest: Uint8Array): Promise<Buffer> => der(digest) };
}

interface Asked {
  readonly KeyId: string;
  readonly Plaintext?: string;
  readonly CiphertextBlob?: string;
  readonly EncryptionContext?: Readonly<Record<string, string>>;
  readonly Message?: string;
  readonly MessageType?: string;
  readonly SigningAlgorithm?: string;
}

/** AWS KMS with one symmetric key and two that sign. It refuses a request that is not signed as it has to be. */
export async function playAws(kind: SigningKind = "EC-P256"): Promise<PlayedService> {
  const signingKeys = new Map(
    await Promise.all(awsSigningIds.map(async (id) => [id, await createSigningKey(kind)] as const)),
  );
  const key = await createWrappingKey();
  return playService(async (url, request, body) => {
    if (!["kms.eu-central-1.amazonaws.com", "127.0.0.1"].includes(url.hostname))
      throw new Error(`asked at ${url}`);
    await requireSignature(url, request, body);
    const action = request.headers.get("x-amz-target") ?? "";
    const asked = JSON.parse(body) as Asked;
    const signing = signingKeys.get(asked.KeyId);
    if (signing && action === "TrentService.GetPublicKey")
      return ["GetPublicKey", { KeyId: asked.KeyId, PublicKey: signing.spki.toString("base64") }];
    if (signing && action === "TrentService.Sign") {
      if (asked.SigningAlgorithm !== signingAlgorithms[kind]) throw new Error("another algorithm");
      const message = octets(asked.Message);
      const isDigest = asked.MessageType === "DIGEST";
      if (!isDigest && message.length > longestMessage) throw new Error("too long for AWS");
      const signed = isDigest ? signing.signDigest(message) : signing.sign(message);
      return ["Sign", { KeyId: asked.KeyId, Signature: (await signed).toString("base64") }];
    }
    if (asked.KeyId !== awsKeyId && asked.KeyId !== awsAlias)
      throw new Error("asked for another key");
    const bound = JSON.stringify(Object.entries(asked.EncryptionContext ?? {}).toSorted());
    if (action === "TrentService.Encrypt") {
      const sealed = await key.encrypt(octets(asked.Plaintext), bound);
      return ["Encrypt", { KeyId: awsKeyId, CiphertextBlob: sealed.toString("base64") }];
    }
    if (action !== "TrentService.Decrypt") throw new Error(`asked for ${action}`);
    const opened = await key.decrypt(Buffer.from(octets(asked.CiphertextBlob)), bound);
    if (!opened) return ["Decrypt", { KeyId: awsKeyId }];
    return ["Decrypt", { KeyId: awsKeyId, Plaintext: opened.toString("base64") }];
  });
}

const octets = (base64 = ""): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(base64, "base64"));

async function requireSignature(url: URL, request: Request, body: string): Promise<void> {
  const [accessKeyId = "", secretAccessKey = ""] = awsCredential.split(":");
  const headers = Object.fromEntries(
    ["content-type", "x-amz-target"].map((name) => [name, request.headers.get(name) ?? ""]),
  );
  const sessionToken = request.headers.get("x-amz-security-token");
  const signer = new AwsV4Signer({
    method: "POST",
    url: url.href,
    body,
    headers,
    accessKeyId,
    secretAccessKey,
    service: "kms",
    region: "eu-central-1",
    datetime: request.headers.get("x-amz-date") ?? "",
    sessionToken: sessionToken ?? "",
  });
  const expected = (await signer.sign()).headers.get("authorization");
  if (request.headers.get("authorization") !== expected) throw new Error("another signature");
}
