import { isSafeToFetch } from "../../foundation/addresses.ts";
import { type Fetch, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import { jsonIn, Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import {
  type Call,
  type Credential,
  type KeyServiceContext,
  KeyServiceError,
} from "./key-service.ts";

/** An answer of a service, whatever its status. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly members: Members;
}

/** Short enough for two calls of a key service within the bound of one load. */
const timeoutMilliseconds = 5_000;

const maximumOctets = 65_536;

/** Text that fits into a header. The error that Node throws for any other text might quote a credential. */
const headerPattern = /^[ -~]{0,20000}$/;

/** Calls of key services and of those that give them credentials. */
export const ServiceCall = {
  /** Sends a request whose answer is bounded in time and size. No redirect is followed; other statuses are returned.
   * @throws KeyServiceError for a redirect, and without an answer within these bounds. */
  async ask(fetch: Fetch, url: string, init: Asked): Promise<Answer> {
    if (!Object.values(init.headers).every((value) => headerPattern.test(value)))
      throw new KeyServiceError("takes a credential of one line of visible ASCII alone");
    const signal = init.signal ?? AbortSignal.timeout(timeoutMilliseconds);
    const read = async (): Promise<Answer> => {
      const response = await fetch(url, { ...init, redirect: "manual", signal });
      const text = await ResponseBody.readText(response, maximumOctets);
      return { status: response.status, text, members: Members.of(jsonIn(text)) };
    };
    const answer = await read().catch((error: unknown) => {
      throw new KeyServiceError(toFetchError(error, "did not answer").message, { cause: error });
    });
    const { status } = answer;
    if (status < 300 || status >= 400) return answer;
    throw new KeyServiceError(`redirects elsewhere (status ${status})`);
  },

  /** A POST of JSON, or a GET where there is no body. */
  inJson: (body?: object, headers: Readonly<Record<string, string>> = {}) => ({
    method: body ? "POST" : "GET",
    headers: { "content-type": "application/json", ...headers },
    body: body ? JSON.stringify(body) : null,
  }),

  /** A POST with these fields as `application/x-www-form-urlencoded`. */
  inForm: (fields: Readonly<Record<string, string>>) => ({
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams(fields).toString(),
  }),

  /** Reads a member that must be a text. @throws KeyServiceError if it is absent or empty. */
  textOf(members: Members, name: string): string {
    const value = members[name];
    if (typeof value === "string" && value !== "") return value;
    throw new KeyServiceError(`answered without ${name}`);
  },

  /** Keeps a token or ticket for 12 hours at most, until a minute before it ends or until it is refused. */
  remembered<T>(obtain: (now: Date) => Promise<Access<T>>) {
    let known: { readonly pass: T; readonly until: number } | undefined;
    return async (now: Date, isRefused = false): Promise<T> => {
      if (known && now.getTime() < known.until && !isRefused) return known.pass;
      const { pass, seconds } = await obtain(now);
      known = { pass, until: now.getTime() + 1000 * Math.min(seconds - 60, 43_200) };
      return pass;
    };
  },

  /**
   * Requests the token of an OAuth grant. A token without `expires_in` is not reused.
   *
   * @throws KeyServiceError for a URL that is not https, a status other than 200, and an answer without a token.
   */
  async grant(
    fetch: Fetch,
    url: string,
    fields: Readonly<Record<string, string>>,
  ): Promise<Access<string>> {
    if (!isSafeToFetch(url))
      throw new KeyServiceError("cannot be asked: its credential must name an https URL");
    const answer = await ServiceCall.ask(fetch, url, ServiceCall.inForm(fields));
    if (answer.status === 200) return ServiceCall.tokenIn(answer.members);
    throw ServiceCall.faultIn(answer, refusal, `${answer.members["error_description"]}`);
  },

  /**
   * Finds the sentence for a service's error. @param code The service's own name for the error, if the sentence is to show it.
   */
  faultIn(
    { status }: Answer,
    dialect: Dialect,
    said: string,
    words: Words = {},
    code = "",
  ): KeyServiceError {
    const all = [...Object.entries(dialect), ...Object.entries(ofAnyService)];
    const known = all.find(([, form]) => form.test(`${status} ${said}`));
    const sentence = known ? sentences[known[0] as keyof typeof sentences] : "refused";
    const filled = sentence.replace(/\{(\w+)\}/g, (_, name) => `${words[name as keyof Words]}`);
    return new KeyServiceError(`${filled} (status ${status}${code && `, ${code}`})`);
  },

  /** Decodes a member, by default from base64. @throws KeyServiceError if it is no such text. */
  octetsIn(members: Members, name: string, parse = Base64.parse): Bytes {
    const octets = parse(ServiceCall.textOf(members, name));
    if (octets) return octets;
    throw new KeyServiceError(`answered a ${name} that cannot be decoded`);
  },

  /** The octets of one PEM block of any label, or of base64 without boundaries; `undefined` for any other text. */
  octetsOfPem: (pem: string): Bytes | undefined =>
    Base64.parse(pem.replace(/-----[A-Z ]+-----|\s/g, "")),

  /** The digest that an algorithm signs. */
  async digestOf(bytes: Bytes, hash = "SHA-256"): Promise<Bytes> {
    return new Uint8Array(await crypto.subtle.digest(hash, bytes));
  },

  /** Requires that the service has used the key that it was asked to use. @throws KeyServiceError otherwise. */
  requireSameKey(isSame: boolean): void {
    if (!isSame) throw new KeyServiceError("answered for another key");
  },

  /** Reads the token of an OAuth answer. A token without `expires_in` may not be reused. @throws KeyServiceError without a token. */
  tokenIn: (members: Members): Access<string> => ({
    pass: ServiceCall.textOf(members, "access_token"),
    seconds: Number(members["expires_in"]) || 0,
  }),

  /** Reads texts of a credential by their names. @throws KeyServiceError that names those that are absent or empty. */
  textsIn(credential: Credential, names: readonly string[]): string[] {
    const members = Members.of(credential);
    const missing = names.filter((name) => typeof members[name] !== "string" || !members[name]);
    if (missing.length === 0) return names.map((name) => `${members[name]}`);
    throw new KeyServiceError(
      `cannot be asked: its credential has no ${missing.join(", no ")}: \`rampart docs key-services\``,
    );
  },

  /** The access token in a credential, if the machine has obtained one already; `undefined` for another form. */
  readyToken: (credential: Credential): Access<string> | undefined =>
    Members.of(credential)["access_token"]
      ? ServiceCall.tokenIn(Members.of(credential))
      : undefined,

  /** A request with a JSON body, authorized by a bearer token. */
  withBearer: (token: string, _: string, body?: object): Asked =>
    ServiceCall.inJson(body, { authorization: `Bearer ${token}` }),

  /** Makes the function that calls a service about a key. It throws a KeyServiceError unless the status is 200. */
  callsTo<T>(
    { fetch, clock }: KeyServiceContext,
    { obtain, url, request, isRefused = ({ status }) => status === 401, fault }: Wire<T>,
  ): Call {
    const access = ServiceCall.remembered(obtain);
    return async (act, body) => {
      const send = async (again = false): Promise<Answer> =>
        ServiceCall.ask(fetch, url(act), await request(await access(clock(), again), act, body));
      let answer = await send();
      // The token may have been revoked before it expired, so a new one is obtained once.
      if (isRefused(answer)) answer = await send(true);
      if (answer.status === 200) return answer.members;
      throw fault(answer, act);
    };
  },
};

/** A request with its headers as a record. */
export interface Asked extends RequestInit {
  readonly headers: Readonly<Record<string, string>>;
}

/** A token or ticket for calls, and for how many seconds it may be reused: 0 if it is obtained for each call. */
export interface Access<T> {
  readonly pass: T;
  readonly seconds: number;
}

/** The causes of an error, with the sentence for each, which follows the name of the key. */
const sentences = {
  clock: "refuses the time of the request: set the clock of this machine",
  expired: "refuses the credential, which has expired",
  credential: "refuses the credential, which is wrong or has expired",
  permission: "does not let this credential: grant {right}",
  address: "does not let this address through its firewall",
  disabled: "has disabled the key",
  deleted: "cannot use the key: it is deleted, or awaits its deletion or its material",
  untimely: "has a key that is not valid now",
  version: "no longer allows this version of the key",
  missing: "has no such key {place}",
  type: "has a key of another use or type",
  // A service gives the same error for all three causes.
  misfit: "does not open the ciphertext: it is of another key, trust domain or KEK id",
  sealed: "is sealed, or stands by",
  tls: "takes TLS alone: add ?tls to its URI",
  throttled: "throttles its calls",
  inside: "failed inside",
};

/** How to recognize the causes of a service's errors: patterns for its status and words. The first that matches is used. */
type Dialect = Partial<Record<keyof typeof sentences, RegExp>>;

/** The words of this service in our sentences. */
type Words = Partial<Record<"right" | "place", string>>;

const ofAnyService: Dialect = { throttled: /^429/, inside: /^5/ };

/** The errors of services that issue tokens. Some say that a credential has expired, each in its own words. */
export const refusal: Dialect = {
  clock: /iat and exp|time range|not.{1,9}valid|issued at/i,
  expired: /expired/i,
  ...ofAnyService,
  credential: /^/,
};

/** The ways in which calls of the services differ. All are JSON over HTTPS. */
interface Wire<T> {
  readonly obtain: () => Promise<Access<T>>;
  readonly url: (act: string) => string;
  readonly request: (pass: T, act: string, body?: object) => Asked | Promise<Asked>;
  /** Whether a response means that the token or ticket is not or no longer valid. By default, status 401 does. */
  readonly isRefused?: (answer: Answer) => boolean;
  readonly fault: (answer: Answer, act: string) => KeyServiceError;
}
