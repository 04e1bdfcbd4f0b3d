import { messageOf } from "../../foundation/errors.ts";
import type { Fetch } from "../../foundation/fetch.ts";
import { readText, toFetchError } from "../../foundation/fetch.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { SignatureAlgorithm } from "../../pki/signature-algorithm.ts";

/** What binds a wrapped KEK to its place. Names stand in the service's own log, and are no secret. */
export type WrappingContext = Readonly<Record<string, string>>;

/** A key in a key service, which never gives it away. The service is as little trusted as a CA upstream. */
export interface ServiceKey {
  /** As the operator wrote it. */
  readonly uri: string;
  /** @throws KeyServiceError */
  readonly wrap: (octets: Bytes, context: WrappingContext) => Promise<Bytes>;
  /** @throws KeyServiceError */
  readonly unwrap: (ciphertext: Bytes, context: WrappingContext) => Promise<Bytes>;
  /** SubjectPublicKeyInfo, DER, of a key that signs. @throws KeyServiceError */
  readonly publicKey: () => Promise<Bytes>;
  /** The signature as X.509 has it, which nobody has verified. @throws KeyServiceError */
  readonly sign: (bytes: Bytes, algorithm: SignatureAlgorithm) => Promise<Bytes>;
}

/** Why a key service did not do its work, as a clause behind its name. It never holds a credential. */
export class KeyServiceError extends Error {
  override readonly name = "KeyServiceError";
}

/** The services by the schemes of their keys' URIs, which are those of sigstore. */
export type ServiceName = "awskms" | "gcpkms" | "azurekms" | "hashivault";

/** What a platform gives to reach key services. */
export interface KeyServiceMeans {
  readonly fetch: Fetch;
  readonly clock: () => Date;
  /** The credential for a service, in one of the forms of its module; a token of it is for the audience. @throws KeyServiceError */
  readonly credential: (service: ServiceName, audience?: string) => Promise<string>;
}

/** The parts of a key's URI: where its service answers, and the path of the key there. */
export interface KeyPlace {
  readonly uri: string;
  /** The origin that the URI names; `undefined` for the usual one of the service. */
  readonly origin: string | undefined;
  readonly path: string;
  readonly options: URLSearchParams;
}

/** An answer of a service, whatever its status. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  /** `undefined` where there is no JSON. */
  readonly json: unknown;
}

/** A key service that is asked twice in one load must still answer within its bound. */
const timeoutMilliseconds = 5_000;

const maximumOctets = 65_536;

/** Sends a request whose answer is bounded in time and size. No redirect is followed. @throws KeyServiceError */
export async function ask(fetch: Fetch, url: string, init: RequestInit): Promise<Answer> {
  const signal = init.signal ?? AbortSignal.timeout(timeoutMilliseconds);
  const read = async (): Promise<Answer> => {
    const response = await fetch(url, { ...init, redirect: "manual", signal });
    const text = await readText(response, maximumOctets);
    return { status: response.status, text, json: jsonOf(text) };
  };
  const answer = await read().catch((error: unknown) => {
    throw new KeyServiceError(toFetchError(error, "did not answer").message, { cause: error });
  });
  const { status } = answer;
  if (status < 300 || status >= 400) return answer;
  throw new KeyServiceError(`redirects elsewhere (status ${status})`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The JSON of a credential or an answer as an object of texts, numbers and objects. */
export const membersOf = (json: unknown): Readonly<Record<string, unknown>> =>
  typeof json === "object" && json !== null ? { ...json } : {};

/** A member that must be a text. @throws KeyServiceError */
export function textOf(json: unknown, name: string): string {
  const value = membersOf(json)[name];
  if (typeof value === "string" && value !== "") return value;
  throw new KeyServiceError(`answered without ${name}`);
}

/** The digest that an algorithm signs. */
export async function digestOf(bytes: Bytes, hash = "SHA-256"): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest(hash, bytes));
}

/** Octets in base64, unless they are written otherwise. @throws KeyServiceError */
export function octetsIn(json: unknown, name: string, parse = parseBase64): Bytes {
  const octets = parse(textOf(json, name));
  if (octets) return octets;
  throw new KeyServiceError(`answered a ${name} that cannot be decoded`);
}

/** The octets in one PEM block; `undefined` for what is none. */
export const octetsOfPem = (pem: string): Bytes | undefined =>
  parseBase64(pem.replace(/-----[A-Z ]+-----|\s/g, ""));

/** A credential that is JSON; `undefined` for any other text. */
export const parseCredential = (text: string): Readonly<Record<string, unknown>> | undefined => {
  const json = jsonOf(text);
  return typeof json === "object" && json !== null ? membersOf(json) : undefined;
};

/** What the first of several keys does that does it. @throws KeyServiceError that says of each why it did not */
export async function firstOf<K extends { readonly uri: string }, T>(
  keys: readonly K[],
  work: (key: K) => Promise<T>,
): Promise<T> {
  const faults: string[] = [];
  for (const key of keys) {
    try {
      return await work(key);
    } catch (error) {
      faults.push(`${key.uri} ${messageOf(error)}`);
    }
  }
  throw new KeyServiceError(faults.join("; "));
}

/** A token that is asked for again a minute before it ends. */
export function remembered(
  clock: () => Date,
  obtain: () => Promise<{ readonly token: string; readonly seconds: number }>,
): (isRefused?: boolean) => Promise<string> {
  let known: { readonly token: string; readonly until: number } | undefined;
  return async (isRefused = false) => {
    const now = clock().getTime();
    if (known && now < known.until && !isRefused) return known.token;
    const { token, seconds } = await obtain();
    known = { token, until: now + 1000 * Math.min(seconds - 60, 43_200) };
    return token;
  };
}

/** The token of an OAuth grant. @throws KeyServiceError */
export async function grant(
  fetch: Fetch,
  url: string,
  fields: Readonly<Record<string, string>>,
): Promise<{ readonly token: string; readonly seconds: number }> {
  const body = new URLSearchParams(fields).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const { status, json } = await ask(fetch, url, { method: "POST", headers, body });
  if (status !== 200) {
    const said = refusedCredential(`${membersOf(json)["error_description"]}`);
    throw new KeyServiceError(`${said} (status ${status})`);
  }
  const { expires_in } = membersOf(json);
  return { token: textOf(json, "access_token"), seconds: Number(expires_in) || 0 };
}

/** Who refuses a credential may say that its time is over, and says it in words of its own. */
export const refusedCredential = (said: string): string =>
  /iat and exp|time range|not.{1,9}valid|issued at/i.test(said)
    ? "refuses the time of the credential: set the clock of this machine"
    : `refuses the credential${/expired/i.test(said) ? ", which has expired" : ""}`;

/** A token that the machine has, and its seconds; `undefined` for a credential of another form. */
export const tokenInCredential = ({
  access_token,
  expires_in,
}: Readonly<Record<string, unknown>>) =>
  typeof access_token === "string"
    ? { token: access_token, seconds: Number(expires_in) || 0 }
    : undefined;

/** What a service says behind its status, and our sentence for it. The first form that fits counts. */
type Sayings = readonly (readonly [form: RegExp, sentence: string])[];

/** Nobody can tell these apart. */
export const anotherKey =
  "does not open the ciphertext: it is of another key, trust domain or KEK id";

/** @param wrapping What a KEK takes. @param signing What a root takes. */
export const wrongType = (wrapping: string, signing: string): string =>
  `has a key of another use or type: a KEK takes ${wrapping}, a root ${signing}`;

const ofAnyService: Sayings = [
  [/^429/, "throttles its calls"],
  [/^5/, "failed inside"],
];

/** The fault in an answer. @param code The service's own name for it, if that is to stand in our sentence. */
export function faultIn(
  { status }: Answer,
  said: string,
  sayings: Sayings,
  code = "",
): KeyServiceError {
  const known = [...sayings, ...ofAnyService].find(([form]) => form.test(`${status} ${said}`));
  return new KeyServiceError(`${known?.[1] ?? "refused"} (status ${status}${code && `, ${code}`})`);
}

/** A key that is asked by JSON over HTTPS, with a token. */
export interface BearerKey {
  readonly url: (act: string) => string;
  readonly tokenOf: (isRefused?: boolean) => Promise<string>;
  readonly faultOf: (answer: Answer, act: string) => KeyServiceError;
  /** The token of an OAuth grant stands in the usual header. */
  readonly headersOf?: (token: string) => Readonly<Record<string, string>>;
  /** The status for a token that is not, or no longer, good. */
  readonly refusal?: number;
}

const bearer = (token: string) => ({
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
});

/** Asks by POST where there is a body, else by GET. @throws KeyServiceError unless the status is 200 */
export const callsWithToken =
  (
    { fetch }: Pick<KeyServiceMeans, "fetch">,
    { url, tokenOf, faultOf, headersOf = bearer, refusal = 401 }: BearerKey,
  ) =>
  async (act: string, body?: object): Promise<unknown> => {
    const send = async (isRefused?: boolean): Promise<Answer> =>
      ask(fetch, url(act), {
        method: body ? "POST" : "GET",
        headers: headersOf(await tokenOf(isRefused)),
        body: body ? JSON.stringify(body) : null,
      });
    let answer = await send();
    // A token may be revoked before it ends, and its grant may give another.
    if (answer.status === refusal) answer = await send(true);
    if (answer.status === 200) return answer.json;
    throw faultOf(answer, act);
  };
