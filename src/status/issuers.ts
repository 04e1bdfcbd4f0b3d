import type { KeyState } from "../authn/issuer-keys.ts";
import type { TokenIssuer } from "../authn/token-issuer.ts";
import { Finding } from "./finding.ts";

/** An issuer of tokens, and its keys as this process or isolate has them. */
export interface IssuerStatus extends Partial<Pick<KeyState, "fetchedAt" | "failure">> {
  readonly name: string;
  readonly cluster: string;
  /** The state of its keys; absent for an issuer that does not report one. */
  readonly keys?: KeyStatus;
  readonly knownKeys: KeyState["keys"];
}

/**
 * - `configured`: the configuration contains them.
 * - `not fetched`: no token of this issuer has been seen here yet.
 * - `stale`: the last fetch failed, and older keys still serve.
 * - `unreachable`: the last fetch failed, and there are no keys.
 */
type KeyStatus = "configured" | "not fetched" | "fetched" | "stale" | "unreachable";

const longestFailure = 500;

/** Reports the keys of a token issuer and the last failure to fetch them, cut to 500 characters. */
export function issuerStatus({ name, cluster, keys }: TokenIssuer, now: Date): IssuerStatus {
  const state = keys.state?.(now);
  if (!state) return { name, cluster, knownKeys: [] };
  const failure = state.failure && {
    ...state.failure,
    detail: state.failure.detail.slice(0, longestFailure),
  };
  const { fetchedAt } = state;
  return { name, cluster, keys: statusOf(state), knownKeys: state.keys, fetchedAt, failure };
}

function statusOf({ source, keys, fetchedAt, failure }: KeyState): KeyStatus {
  if (source === "configuration") return "configured";
  if (failure) return keys.length > 0 ? "stale" : "unreachable";
  return fetchedAt ? "fetched" : "not fetched";
}

/** Reports the faults of an issuer's keys, for {@link issuerFindings}. */
export function examinedIssuer(
  { name: issuer, cluster, keys }: TokenIssuer,
  now: Date,
): ExaminedIssuer {
  const { failure, unusable = [] } = keys.state?.(now) ?? {};
  const fault = failure?.detail;
  return { issuer, cluster, fault, unusableKeys: unusable };
}

/** An issuer, and the state of its keys. */
interface ExaminedIssuer {
  readonly cluster: string;
  readonly issuer: string;
  /** Why the keys cannot be loaded, to follow "it" in a sentence. */
  readonly fault: string | undefined;
  /** The keys for signatures that Rampart cannot use, each with its reason. */
  readonly unusableKeys: readonly string[];
}

/** Findings about the keys of issuers. */
export function issuerFindings(issuers: readonly ExaminedIssuer[]): readonly Finding[] {
  return issuers.flatMap((each) => [...unreachable(each), ...unusable(each)]);
}

function unreachable({ cluster, issuer, fault }: ExaminedIssuer): Finding[] {
  if (fault === undefined) return [];
  const what = `The keys of ${issuer} (cluster ${cluster}) cannot be loaded: it ${fault}.`;
  const remedy =
    "Look whether the CA's machine reaches it, or give its keys inline: `rampart cluster enrol`";
  return [Finding.of("issuer-unreachable", what, remedy)];
}

function unusable({ cluster, issuer, unusableKeys }: ExaminedIssuer): Finding[] {
  return unusableKeys.map((key) => {
    const what = `${issuer} (cluster ${cluster}) has a key that Rampart cannot use, ${key}.`;
    const remedy =
      "Give the issuer an RSA key of 2048 bits or more, or P-256, P-384, P-521, Ed25519";
    return Finding.of("issuer-key-unusable", what, remedy);
  });
}
