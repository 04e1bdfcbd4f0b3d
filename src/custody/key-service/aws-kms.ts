import { toBase64 } from "../../pki/encoding/base64.ts";
import { type Bytes, fingerprintOf, toHex } from "../../pki/encoding/bytes.ts";
import {
  type Answer,
  ask,
  digestOf,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  parseCredential,
  refusedCredential,
  type ServiceKey,
} from "./key-service.ts";

const arnForm =
  /^\/?(arn:aws[a-z-]*:kms:([a-z0-9-]{1,64}):\d{12}:)((?:key|alias)\/[A-Za-z0-9/_-]{1,256})$/;

/** A key of AWS KMS: `awskms:///arn:aws:kms:<region>:<account>:key/<id>`. `undefined` for another URI. */
export function awsKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const [, owner = "", region = "", name = ""] = arnForm.exec(place.path) ?? [];
  if (name === "") return undefined;
  const arn = owner + name;
  const suffix = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const url = `${place.origin ?? `https://kms.${region}.${suffix}`}/`;

  async function call(action: string, body: object): Promise<Readonly<Record<string, unknown>>> {
    const signed = await sign(means, { url, region, action, body: { KeyId: arn, ...body } });
    const answer = await ask(means.fetch, url, signed);
    if (answer.status !== 200) throw faultOf(answer, action, region);
    const json = membersOf(answer.json);
    // An alias may lead to any key of the account; what it opens must still be the KEK that was wrapped.
    const isNamed = name.startsWith("alias/")
      ? `${json["KeyId"]}`.startsWith(`${owner}key/`)
      : arn.endsWith(`${json["KeyId"]}`) && `${json["KeyId"]}`.length >= 36;
    if (!isNamed) throw new KeyServiceError("answered for another key");
    return json;
  }

  const symmetric = { EncryptionAlgorithm: "SYMMETRIC_DEFAULT" };
  return {
    uri: place.uri,
    wrap: async (octets, EncryptionContext) => {
      const body = { Plaintext: toBase64(octets), EncryptionContext, ...symmetric };
      return octetsIn(await call("Encrypt", body), "CiphertextBlob");
    },
    unwrap: async (ciphertext, EncryptionContext) => {
      const body = { CiphertextBlob: toBase64(ciphertext), EncryptionContext, ...symmetric };
      return octetsIn(await call("Decrypt", body), "Plaintext");
    },
    publicKey: async () => octetsIn(await call("GetPublicKey", {}), "PublicKey"),
    sign: async (bytes, { name, hash }) => {
      const SigningAlgorithm = signingAlgorithms[name];
      const isShort = bytes.length <= longestMessage;
      const octets = isShort ? bytes : await digestOf(bytes, hash);
      const body = { Message: toBase64(octets), MessageType: isShort ? "RAW" : "DIGEST" };
      return octetsIn(await call("Sign", { ...body, SigningAlgorithm }), "Signature");
    },
  };
}

/** More than this goes as a digest. */
const longestMessage = 4096;

const signingAlgorithms: Readonly<Record<string, string>> = {
  "ecdsa-with-SHA-256": "ECDSA_SHA_256",
  "ecdsa-with-SHA-384": "ECDSA_SHA_384",
  "SHA-256-with-rsa": "RSASSA_PKCS1_V1_5_SHA_256",
};

interface AwsRequest {
  readonly url: string;
  readonly region: string;
  readonly action: string;
  readonly body: object;
}

/** Signs a request as AWS's Signature Version 4 has it: a POST to the root, without a query. */
async function sign(
  { clock, credential }: KeyServiceMeans,
  { url, region, action, body }: AwsRequest,
): Promise<RequestInit> {
  const content = JSON.stringify(body);
  const { id, secret, token } = parseKeys(await credential("awskms"));
  const date = clock()
    .toISOString()
    .replace(/[:-]|\.\d{3}/g, "");
  const headers = {
    "x-amz-date": date,
    ...(token !== undefined && { "x-amz-security-token": token }),
    "x-amz-target": `TrentService.${action}`,
  };
  const lines = Object.entries({ host: new URL(url).host, ...headers });
  const names = lines.map(([name]) => name).join(";");
  const head = lines.map(([name, value]) => `${name}:${value}\n`).join("");
  const canonical = `POST\n/\n\n${head}\n${names}\n${fingerprintOf(text.encode(content))}`;
  const parts = [date.slice(0, 8), region, "kms", "aws4_request"];
  const scope = parts.join("/");
  const signed = `AWS4-HMAC-SHA256\n${date}\n${scope}\n${fingerprintOf(text.encode(canonical))}`;
  let key = text.encode(`AWS4${secret}`) as Bytes;
  for (const part of [...parts, signed]) key = await hmac(key, part);
  const authorization = `AWS4-HMAC-SHA256 Credential=${id}/${scope}, SignedHeaders=${names}, Signature=${toHex(key)}`;
  const type = { "content-type": "application/x-amz-json-1.1" };
  return { method: "POST", headers: { ...headers, ...type, authorization }, body: content };
}

const text = new TextEncoder();

async function hmac(octets: Bytes, said: string): Promise<Bytes> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", octets, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, text.encode(said)));
}

interface AwsKeys {
  readonly id: string;
  readonly secret: string;
  readonly token: string | undefined;
}

/** `<id>:<secret>`, or the JSON of `aws configure export-credentials`. No header has room for anything else. */
function parseKeys(text: string): AwsKeys {
  const json = parseCredential(text);
  const [, first, second] = /^([^:]*):(.*)$/.exec(text) ?? [];
  const [id, secret] = json ? [json["AccessKeyId"], json["SecretAccessKey"]] : [first, second];
  const token = json?.["SessionToken"] ?? undefined;
  const isToken =
    token === undefined || (typeof token === "string" && /^[!-~]{1,16384}$/.test(token));
  if (
    /^[A-Z0-9]{1,128}$/.test(`${id ?? ""}`) &&
    /^[!-~]{1,256}$/.test(`${secret ?? ""}`) &&
    isToken
  ) {
    return { id: `${id}`, secret: `${secret}`, token };
  }
  throw new KeyServiceError(
    "cannot be asked: its credential is neither <access key id>:<secret access key> nor the JSON of `aws configure export-credentials`",
  );
}

const sentences: Readonly<Record<string, string>> = {
  DisabledException: "has disabled the key",
  KMSInvalidStateException:
    "cannot use the key in its state: it awaits its deletion or its material",
  InvalidKeyUsageException:
    "has a key of another use or type: a KEK takes a symmetric one (ENCRYPT_DECRYPT), a root one that signs (SIGN_VERIFY)",
  IncorrectKeyException: "has another key than the one that wrapped the KEK",
  InvalidCiphertextException:
    "does not open the ciphertext: it is of another key, trust domain or KEK id",
  UnsupportedOperationException:
    "has a key of another type: a KEK takes a symmetric one, a root one that signs",
  ThrottlingException: "throttles its calls",
  LimitExceededException: "throttles its calls",
  KeyUnavailableException: "has the key nowhere at hand for now",
  DependencyTimeoutException: "took too long inside",
  KMSInternalException: "failed inside",
};

const refusedCredentials =
  /^(?:UnrecognizedClient|InvalidClientTokenId|ExpiredToken|InvalidSignature|IncompleteSignature|MissingAuthenticationToken|NotAuthorized)/;

function faultOf({ status, json }: Answer, action: string, region: string): KeyServiceError {
  const members = membersOf(json);
  const code = `${members["__type"] ?? ""}`.replace(/^.*#/, "").slice(0, 64);
  const said = `${members["message"] ?? members["Message"] ?? ""}`;
  const reason = /^[A-Za-z]+$/.test(code) ? `status ${status}, ${code}` : `status ${status}`;
  const sentence = (): string => {
    if (/expired|not yet current|skew/i.test(said) && /Signature|Request/.test(code))
      return "refuses the time of the request: set the clock of this machine";
    if (code === "NotFoundException") return `has no such key in ${region}`;
    if (code === "AccessDeniedException")
      return `does not let this credential: grant kms:${action}`;
    if (refusedCredentials.test(code)) return refusedCredential(code);
    return sentences[code] ?? "refused";
  };
  return new KeyServiceError(`${sentence()} (${reason})`);
}
