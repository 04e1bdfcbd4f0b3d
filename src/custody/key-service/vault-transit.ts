import { parseBase64, toBase64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type Answer,
  ask,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  parseCredential,
  publicKeyIn,
  refusedCredential,
  remembered,
  type ServiceKey,
  textOf,
  type WrappingContext,
} from "./key-service.ts";

const pathForm = /^\/([A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*)\/keys\/([A-Za-z0-9_.-]{1,128})$/;

/** A key of the transit engine of Vault or OpenBao: `hashivault://<host>/<mount>/keys/<name>`. */
export function vaultKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const { origin, options, uri } = place;
  const [, mount = "", name = ""] = pathForm.exec(place.path) ?? [];
  if (name === "" || origin === undefined) return undefined;
  const namespace = options.get("namespace");
  const version = Number(options.get("version") ?? 0);
  const ofVault = {
    "x-vault-request": "true",
    "content-type": "application/json",
    ...(namespace !== null && { "x-vault-namespace": namespace }),
  };

  const post = (path: string, body: object | undefined, token?: string): Promise<Answer> =>
    ask(means.fetch, `${origin}/v1/${path}`, {
      method: body ? "POST" : "GET",
      headers: { ...ofVault, ...(token !== undefined && { "x-vault-token": token }) },
      body: body ? JSON.stringify(body) : null,
    });

  const tokenOf = remembered(means.clock, async () => {
    const text = await means.credential("hashivault");
    const login = parseCredential(text);
    if (!login) return { token: requireToken(text.trim()), seconds: 0 };
    const { auth = "auth/kubernetes/login", role, jwt } = login;
    if (!/^auth\/[A-Za-z0-9/_-]{1,128}\/login$/.test(`${auth}`) || typeof jwt !== "string")
      throw new KeyServiceError(
        "cannot be asked: its credential must be a token, or JSON with role, jwt and auth/<mount>/login",
      );
    const { status, json } = await post(`${auth}`, { role, jwt });
    if (status !== 200)
      throw new KeyServiceError(
        `${refusedCredential(`${membersOf(json)["errors"]}`)} at ${auth} (status ${status})`,
      );
    const { auth: given } = membersOf(json);
    const seconds = Number(membersOf(given)["lease_duration"]) || 0;
    return { token: requireToken(textOf(given, "client_token")), seconds };
  });

  async function call(act: string, body?: object, detail = ""): Promise<unknown> {
    const path = `${mount}/${act}/${name}${detail}`;
    let answer = await post(path, body, await tokenOf());
    // A token may be revoked before it ends, and its login may give another.
    if (answer.status === 403) answer = await post(path, body, await tokenOf(true));
    if (answer.status === 200) return membersOf(answer.json)["data"];
    throw faultOf(answer, `${body ? "update" : "read"} on ${path}`);
  }

  return {
    uri,
    wrap: async (octets, context) => {
      const body = { plaintext: toBase64(octets), associated_data: boundTo(context) };
      return new TextEncoder().encode(textOf(await call("encrypt", body), "ciphertext")) as Bytes;
    },
    unwrap: async (ciphertext, context) => {
      const text = new TextDecoder().decode(ciphertext);
      if (!/^vault:v\d+:[A-Za-z0-9+/=]+$/.test(text))
        throw new KeyServiceError("is to open what is no ciphertext of transit");
      const body = { ciphertext: text, associated_data: boundTo(context) };
      return octetsIn(await call("decrypt", body), "plaintext");
    },
    publicKey: async () => {
      const { keys, latest_version } = membersOf(await call("keys"));
      return publicKeyIn(membersOf(keys)[`${version || latest_version}`], "public_key");
    },
    sign: async (bytes, { hash = "SHA-256" }) => {
      const body = {
        input: toBase64(bytes),
        marshaling_algorithm: "asn1",
        signature_algorithm: "pkcs1v15",
        ...(version > 0 && { key_version: version }),
      };
      const answer = await call("sign", body, `/sha2-${hash.slice(4)}`);
      const [, signed, base64 = ""] = /^vault:v(\d+):(.*)$/.exec(textOf(answer, "signature")) ?? [];
      const octets = parseBase64(base64);
      if (octets && (version === 0 || Number(signed) === version)) return octets;
      throw new KeyServiceError("answered no signature of this version of the key");
    },
  };
}

/** JSON is unambiguous, and the order of the names is fixed. */
const boundTo = (context: WrappingContext): string =>
  toBase64(new TextEncoder().encode(JSON.stringify(Object.entries(context))));

function requireToken(token: string): string {
  if (/^[!-~]{1,16384}$/.test(token)) return token;
  throw new KeyServiceError("cannot be asked: its credential is no token");
}

function faultOf({ status, json }: Answer, right: string): KeyServiceError {
  const said = `${membersOf(json)["errors"] ?? ""}`;
  const sentence = (): string => {
    if (/invalid token/i.test(said)) return "refuses the credential, which is wrong or has expired";
    if (status === 403) return `does not let this credential: grant ${right}`;
    if (status === 404) return "has no transit engine at this mount";
    if (status === 429) return "throttles its calls";
    if (status === 503 || status === 472 || status === 473) return "is sealed, or stands by";
    if (/key not found|no existing key/i.test(said)) return "has no such key";
    if (/disallowed|too old|less than the minimum/i.test(said))
      return "no longer allows this version of the key";
    if (/message authentication|invalid ciphertext|unable to decrypt/i.test(said))
      return "does not open the ciphertext: it is of another key, trust domain or KEK id";
    if (/associated data|not supported|does not support|unsupported/i.test(said))
      return "has a key of another type: a KEK takes aes256-gcm96, a root ecdsa-p256, ecdsa-p384 or RSA";
    return "refused";
  };
  return new KeyServiceError(`${sentence()} (status ${status})`);
}
