import { toBase64 } from "../../pki/encoding/base64.ts";
import { type Bytes, fingerprintOf, toHex } from "../../pki/encoding/bytes.ts";
import {
  type Answer,
  anotherKey,
  ask,
  digestOf,
  faultIn,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  parseCredential,
  refusedCredential,
  type ServiceKey,
  wrongType,
} from "./key-service.ts";

const arnForm =
  /^\/?(arn:aws[a-z-]*:kms:([a-z0-9-]{1,64}):\d{12}:)((?:key|alias)\/[A-Za-z0-9/_-]{1,256})$/;

/** A key of AWS KMS: `awskms:///arn:aws:kms:<region>:<account>:key/<id>`. `undefined` for another URI. */
export function awsKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const [, owner = "", region = "", name = ""] = arnForm.exec(place.path) ?? [];
  if (name === "") return undefined;
  const arn = owner + name;
  const suffix = region.startsWith("cn-") ? ".cn" : "";
  const url = `${place.origin ?? `https://kms.${region}.amazonaws.com${suffix}`}/`;

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
    sign: async (bytes, { hash = "SHA-256", scalarOctets }) => {
      const kind = scalarOctets ? "ECDSA" : "RSASSA_PKCS1_V1_5";
      const SigningAlgorithm = `${kind}_SHA_${hash.slice(4)}`;
      const isShort = bytes.length <= longestMessage;
      const octets = isShort ? bytes : await digestOf(bytes, hash);
      const body = { Message: toBase64(octets), MessageType: isShort ? "RAW" : "DIGEST" };
      return octetsIn(await call("Sign", { ...body, SigningAlgorithm }), "Signature");
    },
  };
}

/** More than this goes as a digest. */
const longestMessage = 4096;

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
  const [id, secret, token] = parseKeys(await credential("awskms"));
  const date = clock()
    .toISOString()
    .replace(/[:-]|\.\d{3}/g, "");
  const headers = {
    "x-amz-date": date,
    ...(token && { "x-amz-security-token": token }),
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

const keyForms = [/^[A-Z0-9]{1,128}$/, /^[!-~]{1,256}$/, /^[!-~]{0,16384}$/];

/** `<id>:<secret>`, or the JSON of `aws configure export-credentials`. No header has room for anything else. */
function parseKeys(text: string): readonly string[] {
  const json = parseCredential(text);
  const [, ...parts] = json
    ? ["", json["AccessKeyId"], json["SecretAccessKey"], json["SessionToken"]]
    : (/^([^:]*):(.*)$/.exec(text) ?? []);
  const keys = keyForms.map((_, i) => `${parts[i] ?? ""}`);
  if (keyForms.every((form, i) => form.test(keys[i] ?? ""))) return keys;
  throw new KeyServiceError(
    "cannot be asked: its credential must be <key id>:<secret>, or what `aws configure export-credentials` prints",
  );
}

function faultOf(answer: Answer, action: string, region: string): KeyServiceError {
  const members = membersOf(answer.json);
  const [, code = ""] = /(?:^|#)([A-Za-z]{1,64})$/.exec(`${members["__type"] ?? ""}`) ?? [];
  const said = `${code} ${members["message"] ?? members["Message"]}`;
  return faultIn(
    answer,
    said,
    [
      [
        /^\d+ \w*(?:Signature|Request)\w* .*(?:expired|not yet current|skew)/i,
        "refuses the time of the request: set the clock of this machine",
      ],
      [/^\d+ NotFound/, `has no such key in ${region}`],
      [/^\d+ AccessDenied/, `does not let this credential: grant kms:${action}`],
      [/^\d+ \w*(?:Token|Signature|Unrecognized|NotAuthorized)/, refusedCredential(code)],
      [/^\d+ Disabled/, "has disabled the key"],
      [/^\d+ KMSInvalidState/, "cannot use the key: it awaits its deletion or its material"],
      [
        /^\d+ (?:InvalidKeyUsage|UnsupportedOperation)/,
        wrongType("ENCRYPT_DECRYPT", "SIGN_VERIFY"),
      ],
      [/^\d+ (?:IncorrectKey|InvalidCiphertext)/, anotherKey],
      [/^\d+ (?:Throttling|LimitExceeded)/, "throttles its calls"],
    ],
    code,
  );
}
