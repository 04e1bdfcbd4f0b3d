import { parseBase64, toBase64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type Answer,
  anotherKey,
  ask,
  callsWithToken,
  faultIn,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  octetsOfPem,
  parseCredential,
  refusedCredential,
  remembered,
  type ServiceKey,
  textOf,
  type WrappingContext,
  wrongType,
} from "./key-service.ts";

const pathForm = /^\/([A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*)\/keys\/([A-Za-z0-9_.-]{1,128})$/;

/** A key of the transit engine of Vault or OpenBao: `hashivault://<host>/<mount>/keys/<name>`. */
export function vaultKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const { options, uri } = place;
  const [, mount = "", name = ""] = pathForm.exec(place.path) ?? [];
  if (name === "" || place.origin === undefined) return undefined;
  const version = Number(options.get("version") ?? 0);
  if (!Number.isSafeInteger(version) || version < 0) return undefined;
  const namespace = options.get("namespace");
  const origin = `${place.origin}/v1/`;
  const headers = {
    "x-vault-request": "true",
    "content-type": "application/json",
    ...(namespace !== null && { "x-vault-namespace": namespace }),
  };
  const asked = callsWithToken(means, {
    url: (act) => `${origin}${mount}/${act}`,
    headersOf: (token) => ({ ...headers, "x-vault-token": token }),
    refusal: 403,
    tokenOf: remembered(means.clock, () => tokenFor(means, origin, headers)),
    faultOf: (answer, act) => faultOf(answer, `${mount}/${act}`),
  });
  const call = async (act: string, body?: object): Promise<unknown> =>
    membersOf(await asked(act.replace("*", name), body))["data"];

  return {
    uri,
    wrap: async (octets, context) => {
      const body = { plaintext: toBase64(octets), associated_data: boundTo(context) };
      return text.encode(textOf(await call("encrypt/*", body), "ciphertext")) as Bytes;
    },
    unwrap: async (octets, context) => {
      const ciphertext = new TextDecoder().decode(octets);
      const body = { ciphertext, associated_data: boundTo(context) };
      return octetsIn(await call("decrypt/*", body), "plaintext");
    },
    publicKey: async () => {
      const { keys, latest_version } = membersOf(await call("keys/*"));
      const key = membersOf(keys)[`${version || latest_version}`];
      return octetsIn(key, "public_key", octetsOfPem);
    },
    sign: async (bytes, { hash = "SHA-256" }) => {
      const body = {
        input: toBase64(bytes),
        marshaling_algorithm: "asn1",
        signature_algorithm: "pkcs1v15",
        ...(version > 0 && { key_version: version }),
      };
      return signatureIn(await call(`sign/*/sha2-${hash.slice(4)}`, body), version);
    },
  };
}

/** @param version Of the key that was asked; 0 for the latest. @throws KeyServiceError */
function signatureIn(answer: unknown, version: number): Bytes {
  const [, signed, base64 = ""] = /^vault:v(\d+):(.*)$/.exec(textOf(answer, "signature")) ?? [];
  const octets = parseBase64(base64);
  if (octets && (version === 0 || Number(signed) === version)) return octets;
  throw new KeyServiceError("answered no signature of this version of the key");
}

/** A token as it is, or that of a login. */
async function tokenFor(
  { fetch, credential }: KeyServiceMeans,
  origin: string,
  headers: Readonly<Record<string, string>>,
) {
  const given = await credential("hashivault");
  const login = parseCredential(given);
  if (!login) return { token: requireToken(given.trim()), seconds: 0 };
  const { auth = "auth/kubernetes/login", role, jwt } = login;
  if (!/^auth\/[A-Za-z0-9/_-]{1,128}\/login$/.test(`${auth}`) || typeof jwt !== "string")
    throw new KeyServiceError(
      "cannot be asked: its credential must be a token, or JSON with role, jwt and auth",
    );
  const body = JSON.stringify({ role, jwt });
  const { status, json } = await ask(fetch, `${origin}${auth}`, { method: "POST", headers, body });
  if (status !== 200)
    throw new KeyServiceError(
      `${refusedCredential(`${membersOf(json)["errors"]}`)} at ${auth} (status ${status})`,
    );
  const { auth: got } = membersOf(json);
  const seconds = Number(membersOf(got)["lease_duration"]) || 0;
  return { token: requireToken(textOf(got, "client_token")), seconds };
}

const text = new TextEncoder();

/** JSON is unambiguous, and the order of the names is fixed. */
const boundTo = (context: WrappingContext): string =>
  toBase64(text.encode(JSON.stringify(Object.entries(context))));

function requireToken(token: string): string {
  if (/^[!-~]{1,16384}$/.test(token)) return token;
  throw new KeyServiceError("cannot be asked: its credential must be a token");
}

function faultOf(answer: Answer, path: string): KeyServiceError {
  const right = `${path.includes("/keys/") ? "read" : "update"} on ${path}`;
  return faultIn(answer, `${membersOf(answer.json)["errors"]}`, [
    [/invalid token/i, "refuses the credential, which is wrong or has expired"],
    [/^403/, `does not let this credential: grant ${right}`],
    [/^404/, "has no transit engine at this mount"],
    [/^(?:503|47[23])/, "is sealed, or stands by"],
    [/key not found|no existing key/i, "has no such key"],
    [/disallowed|too old|less than the minimum/i, "no longer allows this version of the key"],
    [/message authentication|invalid ciphertext|unable to decrypt/i, anotherKey],
    [
      /associated.data|not support|unsupported/i,
      wrongType("aes256-gcm96", "ecdsa-p256, ecdsa-p384 or RSA"),
    ],
  ]);
}
