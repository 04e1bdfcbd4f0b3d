import { toBase64 } from "../../pki/encoding/base64.ts";
import { type Bytes, fingerprintOf, toHex } from "../../pki/encoding/bytes.ts";
import { type Credential, KeyServiceError, type OpenKey } from "./key-service.ts";
import {
  type Access,
  type Answer,
  type Asked,
  callsTo,
  digestOf,
  faultIn,
  membersOf,
  octetsIn,
  requireSameKey,
  textsIn,
} from "./service-call.ts";

const arnForm =
  /^\/?(arn:aws[a-z-]*:kms:([a-z0-9-]{1,64}):\d{12}:)((?:key|alias)\/[A-Za-z0-9/_-]{1,256})$/;

/** What `aws configure export-credentials` prints, without its end. */
interface AwsKeys {
  readonly id: string;
  readonly secret: string;
  readonly token: unknown;
}

/** What is wrong, in the words of AWS: its name for the error, and its message. */
const dialect = {
  clock: /(?:Signature|Request)\w* .*(?:expired|not yet current|skew)/i,
  missing: / NotFound/,
  permission: / AccessDenied/,
  expired: / \w*Expired/,
  credential: / \w*(?:Token|Signature|Unrecognized|NotAuthorized)/,
  disabled: / Disabled/,
  deleted: / KMSInvalidState/,
  type: / (?:InvalidKeyUsage|UnsupportedOperation)/,
  misfit: / (?:IncorrectKey|InvalidCiphertext)/,
  throttled: / (?:Throttling|LimitExceeded)/,
};

/** A key of AWS KMS: `awskms:///arn:aws:kms:<region>:<account>:key/<id>`. `undefined` for another URI. */
export const awsKey: OpenKey = ({ origin, path, uri }, means) => {
  const [, owner = "", region = "", name = ""] = arnForm.exec(path) ?? [];
  if (name === "") return undefined;
  const arn = owner + name;
  const suffix = region.startsWith("cn-") ? ".cn" : "";
  const url = `${origin ?? `https://kms.${region}.amazonaws.com${suffix}`}/`;
  const host = new URL(url).host;

  const ask = callsTo(means, {
    obtain: async () => keysIn(await means.credential("awskms"), means.clock()),
    url: () => url,
    request: (keys: AwsKeys, action, body) => signed(keys, { host, region, action }, means, body),
    isRefused: ({ members }) => /ExpiredToken/.test(`${members["__type"]}`),
    fault: (answer, action) => faultOf(answer, { right: `kms:${action}`, place: `in ${region}` }),
  });
  const call = async (action: string, body?: object) => {
    const members = await ask(action, { KeyId: arn, ...body });
    const answered = `${members["KeyId"]}`;
    // An alias may lead to any key of the account; what it opens must still be the KEK that was wrapped.
    const isAlias = name.startsWith("alias/") && answered.startsWith(`${owner}key/`);
    requireSameKey(isAlias || (arn.endsWith(answered) && answered.length >= 36));
    return members;
  };

  return {
    uri,
    call,
    unwrap: async (ciphertext, EncryptionContext) => {
      const body = { CiphertextBlob: toBase64(ciphertext), EncryptionContext };
      return octetsIn(await call("Decrypt", body), "Plaintext");
    },
    sign: async (bytes, { hash = "SHA-256", scalarOctets }) => {
      const kind = scalarOctets ? "ECDSA" : "RSASSA_PKCS1_V1_5";
      const SigningAlgorithm = `${kind}_SHA_${hash.slice(4)}`;
      const isShort = bytes.length <= longestMessage;
      const octets = isShort ? bytes : await digestOf(bytes, hash);
      const body = { Message: toBase64(octets), MessageType: isShort ? "RAW" : "DIGEST" };
      return octetsIn(await call("Sign", { ...body, SigningAlgorithm }), "Signature");
    },
  };
};

/** More than this goes as a digest. */
const longestMessage = 4096;

/** `<id>:<secret>`, or JSON. */
function keysIn(credential: Credential, now: Date): Access<AwsKeys> {
  const [, AccessKeyId, SecretAccessKey] = /^(\w+):(.+)$/.exec(`${credential}`) ?? [];
  const keys = { AccessKeyId, SecretAccessKey, ...membersOf(credential) };
  const [id = "", secret = ""] = textsIn(keys, ["AccessKeyId", "SecretAccessKey"]);
  const { SessionToken: token, Expiration: end } = membersOf(credential);
  const pass = { id, secret, token };
  if (end === undefined) return { pass, seconds: 0 };
  const seconds = (Date.parse(`${end}`) - now.getTime()) / 1000;
  if (seconds > 0) return { pass, seconds };
  throw new KeyServiceError("cannot be asked: its credential has expired");
}

/** Signs a request as AWS's Signature Version 4 has it: a POST to the root, without a query. */
async function signed(
  { id, secret, token }: AwsKeys,
  { host, region, action }: { readonly host: string; readonly region: string; action: string },
  { clock }: { readonly clock: () => Date },
  body: object = {},
): Promise<Asked> {
  const content = JSON.stringify(body);
  const date = clock()
    .toISOString()
    .replace(/[:-]|\.\d{3}/g, "");
  const headers = {
    "x-amz-date": date,
    ...(token ? { "x-amz-security-token": `${token}` } : {}),
    "x-amz-target": `TrentService.${action}`,
  };
  const lines = Object.entries({ host, ...headers });
  const names = lines.map(([name]) => name).join(";");
  const head = lines.map(([name, value]) => `${name}:${value}\n`).join("");
  const canonical = `POST\n/\n\n${head}\n${names}\n${fingerprintOf(text.encode(content))}`;
  const parts = [date.slice(0, 8), region, "kms", "aws4_request"];
  const scope = parts.join("/");
  const said = `AWS4-HMAC-SHA256\n${date}\n${scope}\n${fingerprintOf(text.encode(canonical))}`;
  let key = text.encode(`AWS4${secret}`) as Bytes;
  for (const part of [...parts, said]) key = await hmac(key, part);
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

function faultOf(answer: Answer, words: { readonly right: string; readonly place: string }) {
  const { __type, message, Message } = answer.members;
  const [, code = ""] = /(?:^|#)([A-Za-z]{1,64})$/.exec(`${__type ?? ""}`) ?? [];
  return faultIn(answer, dialect, `${code} ${message ?? Message}`, words, code);
}
