import { IssuerKeys, type KeySource } from "../../../authn/issuer-keys.ts";
import type { Configuration } from "../../../config/configuration.ts";
import type { IssuerTable } from "../../../config/issuer-table.ts";
import { DocumentFetch, FetchError } from "../../../foundation/fetch.ts";
import { KeySet } from "../../../pki/jose/key-set.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { printable, shortId } from "../../terminal/text.ts";

/** The state of one issuer, as seen from this machine. */
export interface IssuerReport {
  readonly cluster: string;
  readonly issuer: string;
  /** Where its keys come from. */
  readonly source: "inline" | "jwks_uri" | "discovery" | "api";
  /** Why the keys cannot be loaded; `undefined` if they can. */
  readonly fault: string | undefined;
  /** Each key's id, with the algorithms that it may be used with. */
  readonly keys: readonly string[];
  /** The keys for signatures that Rampart cannot use, each with its reason. */
  readonly unusableKeys: readonly string[];
  /** Seconds by which the key server's clock is ahead of this one; `undefined` if no server was asked. */
  readonly clockAheadSeconds: number | undefined;
  /** When the API server reviews tokens, as the table says; `undefined` if it does not. */
  readonly review: string | undefined;
  /** The identities that its tokens may get. */
  readonly identities: readonly string[];
}

/**
 * Inspects every issuer of a configuration from this machine as the CA would, by fetching its keys. It does not throw
 * for an issuer that fails: `fault` says why.
 */
export async function inspectIssuers(
  { issuers, trustDomain }: Configuration,
  clock: () => Date,
): Promise<IssuerReport[]> {
  return Promise.all(
    issuers.map(async (table) => ({
      cluster: table.cluster,
      issuer: table.issuer,
      review: table.kubernetes?.review,
      identities: identitiesOf(table, trustDomain),
      ...(await keysOf(table, clock)),
    })),
  );
}

const fetchJson = DocumentFetch.create({ fetchTrusting: NodeFetch.trusting });

type KeyReport = Pick<
  IssuerReport,
  "source" | "fault" | "keys" | "unusableKeys" | "clockAheadSeconds"
>;

async function keysOf(table: IssuerTable, clock: () => Date): Promise<KeyReport> {
  const { issuer, jwks, jwks_uri, kubernetes } = table;
  const nothing = { fault: undefined, keys: [], unusableKeys: [], clockAheadSeconds: undefined };
  if (jwks) {
    const unusableKeys = jwks.unusable.map(printable);
    return { ...nothing, source: "inline", keys: keyNames(jwks.usable), unusableKeys };
  }
  if (kubernetes?.review === "instead-of-keys") return { ...nothing, source: "api" };
  const source = jwks_uri ? "jwks_uri" : "discovery";
  try {
    const keySource: KeySource = jwks_uri
      ? { url: jwks_uri, reach: "anywhere" }
      : await IssuerKeys.discover(issuer, fetchJson);
    const published = await fetchJson[keySource.reach](keySource.url);
    const keys = KeySet.parse(published);
    return {
      source,
      fault: keys ? undefined : `answered ${KeySet.fault(published)}`,
      keys: keyNames(keys ?? []),
      unusableKeys: KeySet.unusable(published).map(printable),
      clockAheadSeconds: await skewOf(keySource, clock),
    };
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    return { ...nothing, source, fault: error.message };
  }
}

const keyNames = (keys: KeySet): string[] =>
  keys.map(({ keyId = "-", algorithms }) => `${shortId(keyId)} ${algorithms.join("/")}`);

/**
 * Asks a server for its clock.
 * @returns Seconds by which its `Date` (RFC 9110 §6.6.1) is ahead; `undefined` if it does not answer.
 */
async function skewOf({ url, reach }: KeySource, clock: () => Date): Promise<number | undefined> {
  const options = {
    method: "HEAD",
    redirect: "manual",
    signal: AbortSignal.timeout(5000),
  } as const;
  const response = await NodeFetch.trusting(undefined, reach)(url, options).catch(() => undefined);
  await response?.body?.cancel();
  const date = Date.parse(response?.headers.get("date") ?? "");
  return Number.isNaN(date) ? undefined : Math.round((date - clock().getTime()) / 1000);
}

function identitiesOf(table: IssuerTable, trustDomain: string): string[] {
  const { namespaces, trusted_node_accounts, gateways, node_checks, kubernetes, subjects } = table;
  if (subjects) {
    return subjects.map(
      ({ namespace, account }) => `spiffe://${trustDomain}/ns/${namespace}/sa/${account}`,
    );
  }
  const checks = node_checks ?? (kubernetes ? "api" : "claims");
  return [
    ...namespaces.map((namespace) => `spiffe://${trustDomain}/ns/${namespace}/sa/*`),
    ...trusted_node_accounts.map(
      ({ namespace, name }) =>
        `${namespace}/${name}: these identities, of workloads on its node (${checks})`,
    ),
    ...gateways.map(
      ({ account: { namespace, name }, dns_names }) =>
        `${namespace}/${name}: ${dns_names.join(", ")}`,
    ),
  ];
}

/** Half of the leeway of `nbf` and `iat`, beyond which valid tokens are refused. */
const maximumSkewSeconds = 30;

/** Whether a clock differs by more than 30 seconds, half of what tokens tolerate. */
export const isSkewed = (aheadSeconds: number): boolean =>
  Math.abs(aheadSeconds) > maximumSkewSeconds;

/** Formats the reports as a table, and below it the identities of each cluster's tokens. */
export function formatIssuers(screen: Screen, reports: readonly IssuerReport[]): string {
  const rows = reports.map(
    ({ cluster, issuer, source, fault, keys, clockAheadSeconds, review }) => [
      cluster,
      issuer,
      source,
      fault ?? (keys.join(", ") || "-"),
      clockOf(clockAheadSeconds),
      review ?? "-",
    ],
  );
  const identities = reports.flatMap((report) => [
    `Tokens of ${report.cluster} may get`,
    ...report.identities.map((identity) => `  ${identity}`),
    ...report.unusableKeys.map((key) => `  no token of the key ${key}`),
  ]);
  const headings = ["CLUSTER", "ISSUER", "KEYS FROM", "KEYS", "CLOCK", "REVIEW"];
  return [formatTable(screen, headings, rows, ["ISSUER", "KEYS"]), "", ...identities].join("\n");
}

function clockOf(aheadSeconds: number | undefined): string {
  if (aheadSeconds === undefined) return "-";
  if (!isSkewed(aheadSeconds)) return "agrees";
  return `${Math.abs(aheadSeconds)}s ${aheadSeconds > 0 ? "ahead" : "behind"}`;
}
