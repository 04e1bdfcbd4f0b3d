import * as z from "zod/mini";
import type { AuthorityView } from "../../../ca/authority-view.ts";
import type { TokenPolicy } from "../../../ca/issuance/product.ts";
import type { CrlLifetime } from "../../../ca/revocation/crl-plan.ts";
import type { Configuration } from "../../../config/configuration.ts";
import type { ClusterRoots, HeldRoots } from "../../../delivery/root-config-map.ts";
import {
  DocumentFetch,
  FetchError,
  Fetching,
  type JsonFetch,
  ResponseBody,
  toFetchError,
} from "../../../foundation/fetch.ts";
import { Validity } from "../../../pki/x509/validity.ts";
import { parseCrls } from "../../../program/bundle/crl-document.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { ClusterFindings } from "../../../status/clusters.ts";
import { Finding } from "../../../status/finding.ts";
import { issuerFindings } from "../../../status/issuers.ts";
import { TrustDocuments } from "../../../transport/http/trust-routes.ts";
import type { Deployment } from "../../session/deployment.ts";
import { currentView } from "../../session/stores.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { type IssuerReport, inspectIssuers, isSkewed } from "../cluster/cluster-check.ts";
import {
  type ClusterInspection,
  inspectClusters,
  type LoginChoice,
} from "../cluster/cluster-inspection.ts";
import { type DeliveryReport, reportDeliveries } from "../cluster/delivery-report.ts";

const fetchJson = DocumentFetch.create({ fetchTrusting: NodeFetch.trusting });

/** Asks the issuers, and the API servers that this machine may call, and finds what is wrong with them. */
export async function worldFindings(
  deployment: Deployment,
  choice: LoginChoice,
  { environment }: Terminal,
  now: Date,
): Promise<readonly Finding[]> {
  const { configuration } = deployment;
  const { crl, tokens } = configuration;
  const [issuers, inspections] = await Promise.all([
    inspectIssuers(configuration, () => new Date()),
    inspectClusters(configuration, { ...choice, withCrls: crl !== undefined }, environment),
  ]);
  const hasInspected = inspections.some(({ roots }) => typeof roots !== "string");
  const view = hasInspected || tokens ? await currentView(deployment, now) : undefined;
  const deliveries = await reportDeliveries(inspections, async () => view);
  return [
    ...issuerFindings(issuers),
    ...skewFindings(issuers),
    ...(tokens ? await tokenFindings(tokens, view, fetchJson.anywhere) : []),
    ...clusterFindings(deliveries),
    ...(crl ? crlInspectionFindings(inspections, knowledgeOf(configuration, crl, view), now) : []),
  ];
}

const readinessSchema = z.object({ ready: z.boolean(), reasons: z.array(z.string()) });

/**
 * Asks the CA's `/readyz`, which may show an outage that store and configuration do not; nothing if its URL is unknown,
 * or is a plaintext one of another machine.
 */
export async function readinessFindings({
  readyUrl,
  directory,
}: Pick<Deployment, "readyUrl" | "directory">): Promise<readonly Finding[]> {
  if (readyUrl === undefined) return [];
  const signal = AbortSignal.timeout(Fetching.usualTimeoutMilliseconds);
  try {
    const answer = await NodeFetch.trusting(undefined)(readyUrl, { redirect: "manual", signal });
    const said = readinessSchema.safeParse(await ResponseBody.readJson(answer));
    if (!said.success) throw new FetchError("answered something else than a CA");
    const { ready, reasons } = said.data;
    if (ready && reasons.length === 0) return [];
    const what = `${readyUrl} says: ${reasons.map(printable).join("; ") || "not ready"}.`;
    const name = ready ? "ca-needs-attention" : "ca-not-ready";
    return [Finding.of(name, what, "See `rampart docs troubleshoot`, and the log of the CA")];
  } catch (error) {
    // Plaintext is served on the CA's own loopback. Unless the store is a folder here, that is another machine's.
    if (directory === undefined && !readyUrl.startsWith("https:")) return [];
    const { message } = toFetchError(error, "did not answer");
    return [Finding.of("ca-away", `${readyUrl} ${message}.`, "Start the CA, or look at its log")];
  }
}

/** Finds issuers whose clock differs by more than 30 seconds. */
export const skewFindings = (reports: readonly IssuerReport[]): readonly Finding[] =>
  reports.flatMap(skewed);

function skewed({ issuer, clockAheadSeconds }: IssuerReport): Finding[] {
  if (clockAheadSeconds === undefined || !isSkewed(clockAheadSeconds)) return [];
  const by = `${Math.abs(clockAheadSeconds)}s ${clockAheadSeconds > 0 ? "ahead of" : "behind"}`;
  const what = `The clock of ${issuer} is ${by} this machine's.`;
  return [Finding.of("clock-skew", what, "Compare both with a time server (chronyc tracking)")];
}

/** A fault of the API server means that it is away; any other, that this machine has no login. */
function unseen(content: string, cluster: string, fault: string): Finding {
  if (fault.startsWith("the API server ")) return ClusterFindings.away(content, cluster, fault);
  const what = `The ${content} in ${cluster} were not looked at: ${fault}.`;
  return Finding.of("cluster-not-inspected", what, "`rampart doctor --kubeconfig ~/.kube/config`");
}

/** Finds the clusters whose trust bundles are missing, unreadable or, if the CA's own is known, old. */
export function clusterFindings(reports: readonly DeliveryReport[]): readonly Finding[] {
  return reports.flatMap(({ cluster, fault, namespaces, bundles, withoutBundle, without }) => {
    if (fault !== undefined) return [unseen("roots", cluster, fault)];
    const others = bundles.filter(({ isCurrent }) => isCurrent === false);
    const stale = others.reduce((sum, each) => sum + each.namespaces, 0);
    return ClusterFindings.roots({ cluster, namespaces, stale, missing: withoutBundle }, without);
  });
}

/** What the CRLs in the clusters are compared with. */
type CrlKnowledge = ReturnType<typeof knowledgeOf>;

/**
 * Collects what the CRLs in clusters are compared with: their lifetime, the latest revocation, and the clusters that
 * the CA delivers to.
 */
export function knowledgeOf(
  { issuers, configuredRevocations }: Configuration,
  { lifetimeSeconds }: CrlLifetime,
  view: AuthorityView | undefined,
) {
  const listed = new Set(view?.crlIssuers.map(({ authority }) => authority.id));
  const known = [...configuredRevocations, ...(view?.revocations ?? [])];
  const instants = known
    .filter(({ authority }) => listed.has(authority))
    .map(({ revokedAt }) => revokedAt.getTime());
  return {
    lifetimeSeconds,
    latestRevocation: instants.length > 0 ? new Date(Math.max(...instants)) : undefined,
    /** The issuers of the clusters to which the CA itself delivers CRLs. */
    delivering: new Set(
      issuers.flatMap(({ issuer, kubernetes }) => (kubernetes?.deliver_crls ? [issuer] : [])),
    ),
  };
}

/**
 * Finds clusters with old, ended or missing CRLs. One without any has no finding, unless the CA delivers CRLs to it.
 */
export function crlInspectionFindings(
  inspections: readonly ClusterInspection[],
  knowledge: CrlKnowledge,
  now: Date,
): readonly Finding[] {
  return inspections.flatMap((inspection) => {
    const { cluster, crls } = inspection;
    if (crls === undefined) return [];
    if (typeof crls === "string") return [unseen("CRLs", cluster, crls)];
    return findingsIn(inspection, crls, knowledge, now);
  });
}

type State = "missing" | "ended" | "stale" | "current";

function findingsIn(
  { cluster, issuer }: ClusterInspection,
  { namespaces, held }: ClusterRoots<HeldRoots>,
  knowledge: CrlKnowledge,
  now: Date,
): readonly Finding[] {
  const states = new Map<string, State>();
  const stateOf = (pem: string): State => {
    const state = states.get(pem) ?? stateOfLists(pem, knowledge, now);
    states.set(pem, state);
    return state;
  };
  const found = Map.groupBy(namespaces, (each) => stateOf(held.get(each)?.pem ?? ""));
  const count = (state: State): number => found.get(state)?.length ?? 0;
  const isDelivered = issuer !== undefined && knowledge.delivering.has(issuer);
  const missing = count("missing");
  if (missing === namespaces.length && !isDelivered) return [];
  const counts = { stale: count("stale"), missing, ended: count("ended") };
  return ClusterFindings.crls({ cluster, namespaces: namespaces.length, ...counts });
}

/**
 * The part of its lifetime that a current CRL has left at least. A new one is made every quarter, so with half of it
 * left a delivery was missed.
 */
const oldestShare = 1 / 2;

function stateOfLists(pem: string, knowledge: CrlKnowledge, now: Date): State {
  const times = timesOf(pem);
  if (!times) return "missing";
  const leftSeconds = (times.ends - now.getTime()) / 1000;
  if (leftSeconds <= 0) return "ended";
  const latest = knowledge.latestRevocation?.getTime() ?? Number.NEGATIVE_INFINITY;
  // A CRL that has the latest revocation was made then or later, and its beginning is backdated.
  const knowsLatest = times.begins >= Math.floor(latest / 1000 - Validity.backdateSeconds) * 1000;
  const isYoung = leftSeconds > knowledge.lifetimeSeconds * oldestShare;
  return isYoung && knowsLatest ? "current" : "stale";
}

/** The earliest end and the latest beginning of the CRLs in a text; `undefined` if it has none that can be read. */
function timesOf(pem: string): { readonly begins: number; readonly ends: number } | undefined {
  try {
    const crls = parseCrls(pem);
    return {
      begins: Math.max(...crls.map(({ thisUpdate }) => thisUpdate.getTime())),
      ends: Math.min(...crls.map(({ nextUpdate = new Date(0) }) => nextUpdate.getTime())),
    };
  } catch (error) {
    if (error instanceof FetchError) return undefined;
    throw error;
  }
}

const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.string() });
const keySetSchema = z.object({ keys: z.array(z.object({ kid: z.optional(z.string()) })) });

/** Reads the documents of JWT-SVIDs as a relying party does, and finds what is wrong with them. */
export async function tokenFindings(
  { issuer }: TokenPolicy,
  view: AuthorityView | undefined,
  fetchJson: JsonFetch,
): Promise<readonly Finding[]> {
  const fault = await faultOf(issuer, view, fetchJson).catch((error: unknown) => {
    if (error instanceof FetchError) return `cannot be read: ${error.message}`;
    throw error;
  });
  if (fault === undefined) return [];
  const what = `${issuer}${TrustDocuments.discoveryPath} ${fault}.`;
  const remedy =
    "Set JWT_ISSUER to where the CA answers, or keep its documents there with `rampart authority documents`";
  return [Finding.of("jwt-issuer-elsewhere", what, remedy)];
}

async function faultOf(
  issuer: string,
  view: AuthorityView | undefined,
  fetchJson: JsonFetch,
): Promise<string | undefined> {
  const discovery = discoverySchema.safeParse(
    await fetchJson(`${issuer}${TrustDocuments.discoveryPath}`),
  );
  if (!discovery.success) return "is no discovery document";
  if (discovery.data.issuer !== issuer) return "names another issuer";
  const keySet = keySetSchema.safeParse(await fetchJson(discovery.data.jwks_uri));
  if (!keySet.success) return "leads to no JWK Set";
  const served = new Set(keySet.data.keys.map(({ kid }) => kid));
  const missing = view?.tokenKeys.find(({ id }) => !served.has(id));
  return missing && `leads to a JWK Set without the key ${missing.id.slice(0, 12)}`;
}
