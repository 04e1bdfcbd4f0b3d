import * as z from "zod/mini";
import { Host, isSafeToFetch } from "../foundation/addresses.ts";
import { isRecent } from "../foundation/caches.ts";
import { CaError } from "../foundation/errors.ts";
import { type DocumentFetch, FetchError, Fetching } from "../foundation/fetch.ts";
import { Semaphore, type SharedWork, type WorkSharing } from "../foundation/shared-work.ts";
import type { JsonWebSignature } from "../pki/jose/json-web-signature.ts";
import { type JudgedKeySet, KeySet } from "../pki/jose/key-set.ts";

/** The key that a token's header asks for. */
export type KeyQuery = Pick<JsonWebSignature, "algorithm" | "keyId">;

/**
 * The keys of one issuer that may have signed a token; empty if the issuer has no such key.
 *
 * @throws CaError `key-provider-unreachable` if the keys cannot be fetched, `too-many-waiting` if too many requests
 *   wait for them. The same token may pass later.
 */
export interface IssuerKeys {
  (query: KeyQuery, now: Date): readonly KeySet[number][] | Promise<readonly KeySet[number][]>;
  /** The state of the keys, for reports only. */
  readonly state?: (now: Date) => KeyState;
  /** Fetches the keys, unless it is too early for another fetch. It needs no token from a caller. */
  readonly probe?: (now: Date) => Promise<void>;
}

/** The keys of an issuer as this process, or this isolate, has them. */
export interface KeyState {
  /** Whether the keys are part of the configuration or are published by the issuer. */
  readonly source: "configuration" | "issuer";
  /** The usable keys; none once they are too old. */
  readonly keys: readonly Pick<KeySet[number], "keyId" | "algorithms">[];
  /** The keys for signatures in the set that are not usable. */
  readonly unusable?: readonly string[];
  /** When they were fetched; `undefined` before the first fetch that succeeded. */
  readonly fetchedAt?: Date | undefined;
  /** The last fetch, if it failed. */
  readonly failure?: { readonly at: Date; readonly detail: string } | undefined;
}

/** Called when an issuer's keys could not be fetched, even while older ones still serve. */
type KeyFetchFailed = (issuer: string, error: FetchError) => void;

/** How the keys of an issuer are fetched and used. */
export interface KeyFetching {
  readonly fetchJson: DocumentFetch;
  readonly keyFetchFailed: KeyFetchFailed;
  /** The timeout of `fetchJson`, which has a default. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  readonly shareWork: WorkSharing;
  /** Bounds the requests that wait for keys, over all issuers: anybody can cause one, because its token is not verified yet. */
  readonly waitingCapacity: Semaphore;
}

/** The age at which fetched keys are fetched again, so that a withdrawn key stops working. */
export const keysFreshSeconds = 600;

/** The age up to which fetched keys serve while their issuer cannot be reached. */
export const keysSurviveOutageSeconds = 21_600;

/** The least time between two fetches that tokens with unknown keys cause. */
export const coolDownSeconds = 30;

/** The time from a failed fetch to the next while no keys serve. */
const retrySeconds = 5;

/** The most requests that wait for the keys of one issuer. Further ones are refused as `too-many-waiting`. */
export const maximumWaiting = 1000;

/** The keys of an issuer. */
export const IssuerKeys = {
  /** Uses the keys of a JWK Set in the configuration. */
  pinned({ usable: keys, unusable }: JudgedKeySet): IssuerKeys {
    const find = ({ algorithm, keyId }: KeyQuery) => KeySet.candidates(keys, algorithm, keyId);
    const state = (): KeyState => ({ source: "configuration", keys, unusable });
    return Object.assign(find, { state });
  },

  /**
   * Fetches the keys that an issuer publishes, when a token needs them.
   *
   * @param url Where they are; absent to read the issuer's discovery document.
   */
  published(issuer: string, url: string | undefined, fetching: KeyFetching): IssuerKeys {
    const keys = new PublishedKeys(issuer, url, fetching);
    return Object.assign(keys.find, { state: keys.stateAt, probe: keys.probe });
  },

  /**
   * Fetches the discovery document of an issuer, and returns where its keys are. The document must name the issuer that
   * it was fetched for, byte for byte (OpenID Connect Discovery §4.3).
   *
   * The operator chose the issuer's URL, but a stranger may have written the document. So the document of a public
   * issuer must not name a private address, except one at the issuer's own origin, which the operator chose.
   *
   * @throws FetchError for any other document, or without one.
   */
  async discover(issuer: string, fetchJson: DocumentFetch): Promise<KeySource> {
    const place = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
    const document = documentSchema.safeParse(await fetchJson.anywhere(place));
    if (!document.success) throw new FetchError("answered no discovery document");
    if (document.data.issuer !== issuer) throw new FetchError("describes another issuer");
    const { jwks_uri: url } = document.data;
    if (!isSafeToFetch(url)) throw new FetchError("points at an unsafe key URL");
    const [own, other] = [new URL(issuer), new URL(url)];
    if (!Host.isPublic(own.hostname) || own.origin === other.origin)
      return { url, reach: "anywhere" };
    if (Host.isPublic(other.hostname)) return { url, reach: "public" };
    throw new FetchError("points at a private key URL: configure jwks_uri if that is right");
  },
};

/**
 * The keys that an issuer publishes, cached as values in this isolate. One request at a time fetches; the
 * others that need the keys wait for it.
 */
class PublishedKeys {
  readonly #issuer: string;
  readonly #url: string | undefined;
  readonly #means: KeyFetching;
  readonly #longestMilliseconds: number;
  readonly #fetching: SharedWork;
  #fetched: (JudgedKeySet & { readonly at: Date }) | undefined;
  #failure: KeyState["failure"];
  #begun: Date | undefined;
  /** How long after {@link #begun} no other fetch begins. */
  #pauseSeconds = 0;

  constructor(issuer: string, url: string | undefined, means: KeyFetching) {
    const { fetchTimeoutMilliseconds = Fetching.usualTimeoutMilliseconds, waitingCapacity } = means;
    this.#issuer = issuer;
    this.#url = url;
    this.#means = means;
    // With discovery, fetching the keys takes two requests.
    this.#longestMilliseconds = 2 * fetchTimeoutMilliseconds + 1000;
    const capacity = new Semaphore(maximumWaiting, waitingCapacity);
    this.#fetching = means.shareWork(capacity, this.#longestMilliseconds);
  }

  readonly stateAt = (now: Date): KeyState => {
    const { usable = [], unusable = [], at: fetchedAt } = this.#fetched ?? {};
    const keys = this.#isYounger(keysSurviveOutageSeconds, now) ? usable : [];
    return { source: "issuer", keys, unusable, fetchedAt, failure: this.#failure };
  };

  readonly probe = async (now: Date): Promise<void> => {
    if (this.#isDue(now)) await this.#fetching.join(() => this.#fetch(now));
  };

  readonly find: (query: KeyQuery, now: Date) => ReturnType<IssuerKeys> = (query, now) => {
    const known = this.#candidatesFor(query);
    const isKnown = known.length > 0;
    if (isKnown && this.#isYounger(keysFreshSeconds, now)) return known;
    return this.#refresh(query, isKnown, now);
  };

  async #refresh(query: KeyQuery, isKnown: boolean, now: Date): Promise<readonly KeySet[number][]> {
    if (this.#isDue(now)) await this.#fetching.join(() => this.#fetch(now));
    else if (!isKnown) await this.#fetching.join();
    const survives = this.#isYounger(keysSurviveOutageSeconds, now);
    const candidates = survives ? this.#candidatesFor(query) : [];
    const isReachable = this.#fetched !== undefined && this.#failure === undefined;
    // Empty means that the issuer has no such key. Nobody knows that while the issuer does not answer.
    if (candidates.length > 0 || isReachable) return candidates;
    throw new CaError(
      { reason: "key-provider-unreachable", issuer: this.#issuer },
      "the issuer's keys cannot be fetched",
    );
  }

  async #fetch(now: Date): Promise<void> {
    const { fetchJson, keyFetchFailed } = this.#means;
    this.#begun = now;
    // Set before the fetch, so that requests with cached keys do not wait for it.
    this.#pauseSeconds = this.#longestMilliseconds / 1000;
    try {
      const source: KeySource = this.#url
        ? { url: this.#url, reach: "anywhere" }
        : await IssuerKeys.discover(this.#issuer, fetchJson);
      this.#fetched = { ...(await fetchKeySet(source, fetchJson)), at: now };
      this.#failure = undefined;
      this.#pauseSeconds = coolDownSeconds;
    } catch (error) {
      if (!(error instanceof FetchError)) throw error;
      this.#failure = { at: now, detail: error.message };
      // While older keys still serve, few requests should wait for a fetch.
      const survives = this.#isYounger(keysSurviveOutageSeconds, now);
      this.#pauseSeconds = survives ? coolDownSeconds : retrySeconds;
      keyFetchFailed(this.#issuer, error);
    }
  }

  #candidatesFor({ algorithm, keyId }: KeyQuery): readonly KeySet[number][] {
    return KeySet.candidates(this.#fetched?.usable ?? [], algorithm, keyId);
  }

  #isDue(now: Date): boolean {
    return !isRecent(this.#begun, this.#pauseSeconds, now);
  }

  #isYounger(seconds: number, now: Date): boolean {
    return isRecent(this.#fetched?.at, seconds, now);
  }
}

async function fetchKeySet(source: KeySource, fetchJson: DocumentFetch): Promise<JudgedKeySet> {
  const published = await fetchJson[source.reach](source.url);
  const usable = KeySet.parse(published);
  if (!usable) throw new FetchError(`answered ${KeySet.fault(published)}`);
  return { usable, unusable: KeySet.unusable(published) };
}

/** The URL of an issuer's keys, and the addresses from which they may be fetched. */
export interface KeySource {
  readonly url: string;
  readonly reach: keyof DocumentFetch;
}

const documentSchema = z.object({ issuer: z.string(), jwks_uri: z.string() });
