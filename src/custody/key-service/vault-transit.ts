import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type Call,
  type KeyServiceContext,
  KeyServiceError,
  type OpenKey,
  type WrappingContext,
} from "./key-service.ts";
import { refusal, ServiceCall } from "./service-call.ts";

const pathPattern = /^\/([A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*)\/keys\/([A-Za-z0-9_.-]{1,128})$/;

/** Patterns for the errors of Vault. */
const dialect = {
  credential: /invalid token/i,
  permission: /^403/,
  sealed: /^(?:503|47[23])/,
  missing: /^404|key not found|no existing key/i,
  version: /disallowed|too old|less than the minimum/i,
  misfit: /message authentication|invalid ciphertext|unable to decrypt/i,
  tls: /to an HTTPS server/,
  type: /associated.data|not support|unsupported/i,
};

/** A key of the transit engine of Vault or OpenBao: `hashivault://<host>/<mount>/keys/<name>`. */
export const vaultKey: OpenKey = ({ origin, path, options, uri }, means) => {
  const [, mount = "", name = ""] = pathPattern.exec(path) ?? [];
  const version = Number(options.get("version") ?? 0);
  const isVersion = Number.isSafeInteger(version) && version >= 0;
  if (name === "" || origin === undefined || !isVersion) return undefined;
  const base = `${origin}/v1/`;
  const namespace = options.get("namespace");
  const headers = {
    "x-vault-request": "true",
    ...(namespace !== null && { "x-vault-namespace": namespace }),
  };

  const asked = ServiceCall.callsTo(means, {
    obtain: () => tokenFor({ base, headers }, means),
    url: (act) => `${base}${mount}/${act}`,
    request: (token, _, body) => ServiceCall.inJson(body, { ...headers, "x-vault-token": token }),
    isRefused: ({ status }) => status === 403,
    fault: (answer, act) => {
      const right = `${act.startsWith("keys/") ? "read" : "update"} on ${mount}/${act}`;
      const words = { right, place: "or no transit engine at this mount" };
      return ServiceCall.faultIn(
        answer,
        dialect,
        `${answer.members["errors"] ?? answer.text}`,
        words,
      );
    },
  });
  const call: Call = async (act, body) =>
    Members.of((await asked(act.replace("*", name), body))["data"]);

  return {
    uri,
    call,
    unwrap: async (octets, context) => {
      const ciphertext = new TextDecoder().decode(octets);
      const body = { ciphertext, associated_data: boundTo(context) };
      return ServiceCall.octetsIn(await call("decrypt/*", body), "plaintext");
    },
    sign: async (bytes, { hash = "SHA-256" }) => {
      const body = {
        input: Base64.format(bytes),
        marshaling_algorithm: "asn1",
        signature_algorithm: "pkcs1v15",
        ...(version > 0 && { key_version: version }),
      };
      return signatureIn(await call(`sign/*/sha2-${hash.slice(4)}`, body), version);
    },
  };
};

/** A Vault, and the headers of every request to it. */
interface Vault {
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The configured token, or that of a login. @throws KeyServiceError */
async function tokenFor({ base, headers }: Vault, means: KeyServiceContext) {
  const credential = await means.credential("hashivault");
  if (typeof credential === "string") return { pass: credential, seconds: 0 };
  const login = { auth: "auth/kubernetes/login", ...credential };
  const [jwt, auth = ""] = ServiceCall.textsIn(login, ["jwt", "auth"]);
  const body = { role: Members.of(credential)["role"], jwt };
  const answer = await ServiceCall.ask(means.fetch, base + auth, ServiceCall.inJson(body, headers));
  const said = `${answer.members["errors"]}`;
  if (answer.status !== 200) throw ServiceCall.faultIn(answer, refusal, said, {}, `at ${auth}`);
  const got = Members.of(answer.members["auth"]);
  return {
    pass: ServiceCall.textOf(got, "client_token"),
    seconds: Number(got["lease_duration"]) || 0,
  };
}

/** @param version The version of the key that had to sign; 0 for the latest. @throws KeyServiceError */
function signatureIn(answer: Members, version: number): Bytes {
  const [, signed, base64 = ""] =
    /^vault:v(\d+):(.*)$/.exec(ServiceCall.textOf(answer, "signature")) ?? [];
  const octets = Base64.parse(base64);
  if (octets && (version === 0 || Number(signed) === version)) return octets;
  throw new KeyServiceError("answered no signature of this version of the key");
}

const text = new TextEncoder();

/** The context of a KEK in base64. Its JSON is unambiguous, because the order of the names is fixed. */
export const boundTo = (context: WrappingContext): string =>
  Base64.format(text.encode(JSON.stringify(Object.entries(context))));
