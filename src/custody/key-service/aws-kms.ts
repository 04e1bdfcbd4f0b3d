import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { fingerprintOf } from "../../pki/encoding/bytes.ts";
import { AwsKeys } from "./aws-signature.ts";
import { type Credential, KeyServiceError, type OpenKey } from "./key-service.ts";
import { type Access, type Answer, type Asked, ServiceCall } from "./service-call.ts";

const arnPattern =
  /^\/?(arn:aws[a-z-]*:kms:([a-z0-9-]{1,64}):\d{12}:)((?:key|alias)\/[A-Za-z0-9/_-]{1,256})$/;

/** Patterns for the errors of AWS, by its name for the error and its message. */
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
  const [, owner = "", region = "", name = ""] = arnPattern.exec(path) ?? [];
  if (name === "") return undefined;
  const arn = owner + name;
  const url = `${origin ?? `https://kms.${region}.${AwsKeys.domain(region)}`}/`;

  const ask = ServiceCall.callsTo(means, {
    obtain: async () => awsKeysIn(await means.credential("awskms"), means.clock()),
    url: () => url,
    request: (keys: AwsKeys, action, body) =>
      signed(keys, { url, region, action }, means.clock(), body),
    isRefused: ({ members }) => /ExpiredToken/.test(`${members["__type"]}`),
    fault: (answer, action) => faultOf(answer, { right: `kms:${action}`, place: `in ${region}` }),
  });
  const call = async (action: string, body?: object) => {
    const members = await ask(action, { KeyId: arn, ...body });
    const answered = `${members["KeyId"]}`;
    // An alias may lead to any key of the account; what it opens must still be the KEK that was wrapped.
    const isAlias = name.startsWith("alias/") && answered.startsWith(`${owner}key/`);
    ServiceCall.requireSameKey(isAlias || (arn.endsWith(answered) && answered.length >= 36));
    return members;
  };

  return {
    uri,
    call,
    unwrap: async (ciphertext, EncryptionContext) => {
      const body = { CiphertextBlob: Base64.format(ciphertext), EncryptionContext };
      return ServiceCall.octetsIn(await call("Decrypt", body), "Plaintext");
    },
    sign: async (bytes, { hash = "SHA-256", scalarOctets }) => {
      const kind = scalarOctets ? "ECDSA" : "RSASSA_PKCS1_V1_5";
      const SigningAlgorithm = `${kind}_SHA_${hash.slice(4)}`;
      const isShort = bytes.length <= longestMessage;
      const octets = isShort ? bytes : await ServiceCall.digestOf(bytes, hash);
      const body = { Message: Base64.format(octets), MessageType: isShort ? "RAW" : "DIGEST" };
      return ServiceCall.octetsIn(await call("Sign", { ...body, SigningAlgorithm }), "Signature");
    },
  };
};

/** AWS KMS takes longer messages only as a digest. */
const longestMessage = 4096;

/**
 * Reads keys of AWS: `<id>:<secret>`, or what `aws configure export-credentials` prints.
 *
 * @throws KeyServiceError for keys that are missing or have expired.
 */
export function awsKeysIn(credential: Credential, now: Date): Access<AwsKeys> {
  const [, AccessKeyId, SecretAccessKey] = /^(\w+):(.+)$/.exec(`${credential}`) ?? [];
  const keys = { AccessKeyId, SecretAccessKey, ...Members.of(credential) };
  const [accessKeyId = "", secretAccessKey = ""] = ServiceCall.textsIn(keys, [
    "AccessKeyId",
    "SecretAccessKey",
  ]);
  const { SessionToken: token, Expiration: end } = Members.of(credential);
  const pass = { accessKeyId, secretAccessKey, sessionToken: token ? `${token}` : undefined };
  if (end === undefined) return { pass, seconds: 0 };
  const seconds = (Date.parse(`${end}`) - now.getTime()) / 1000;
  if (seconds > 0) return { pass, seconds };
  throw new KeyServiceError("cannot be asked: its credential has expired");
}

/** Signs the request for an action: a POST to the root, without a query. */
async function signed(
  keys: AwsKeys,
  { url, region, action }: Readonly<Record<"url" | "region" | "action", string>>,
  now: Date,
  body: object = {},
): Promise<Asked> {
  const content = JSON.stringify(body);
  const headers = { "x-amz-target": `TrentService.${action}` };
  const digest = fingerprintOf(new TextEncoder().encode(content));
  const request = { method: "POST", url: new URL(url), headers, digest };
  const all = await AwsKeys.signedHeaders(request, keys, [region, "kms"], now);
  const type = { "content-type": "application/x-amz-json-1.1" };
  return { method: "POST", headers: { ...all, ...type }, body: content };
}

function faultOf(answer: Answer, words: { readonly right: string; readonly place: string }) {
  const { __type, message, Message } = answer.members;
  const [, code = ""] = /(?:^|#)([A-Za-z]{1,64})$/.exec(`${__type ?? ""}`) ?? [];
  return ServiceCall.faultIn(answer, dialect, `${code} ${message ?? Message}`, words, code);
}
