import { stringify as toToml } from "smol-toml";
import { stringify as toYaml } from "yaml";
import * as z from "zod/mini";
import { IssuerKeys } from "../../../authn/issuer-keys.ts";
import type { ReviewOrder } from "../../../authn/token-issuer.ts";
import { IssuerTable } from "../../../config/issuer-table.ts";
import { Host, isSafeToFetch } from "../../../foundation/addresses.ts";
import { inEnglish } from "../../../foundation/english.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { type DocumentFetch, FetchError } from "../../../foundation/fetch.ts";
import { parseJson } from "../../../foundation/json.ts";
import { KeySet } from "../../../pki/jose/key-set.ts";

/** The documents of an issuer, as a cluster or its operator provides them. */
export interface IssuerDocuments {
  readonly issuer: string;
  /** The JWK Set, not parsed; `undefined` if only the issuer's name is known. */
  readonly jwks: unknown;
}

/**
 * The platforms whose configuration gets the table: a Worker's variables, the file of `serve`, or the chart's values.
 */
export const platforms = ["worker", "serve", "helm"] as const;

/** The settings of a table, except its issuer and its keys. */
export interface EnrolmentSettings {
  readonly platform: (typeof platforms)[number];
  readonly cluster: string;
  readonly audiences: readonly string[];
  readonly kubernetes?:
    | { readonly server: string; readonly ca: string | undefined; readonly review: ReviewOrder }
    | undefined;
}

const discovery = z.object({ issuer: z.string() });

/**
 * Parses the documents of an API server. The key set is parsed as JSON, but its keys are not checked.
 * @throws OperatorError for a document that is not JSON, and for a discovery document that names no issuer.
 */
export function parseIssuerDocuments(discoveryText: string, jwksText: string): IssuerDocuments {
  return { issuer: issuerIn(discoveryText), jwks: documentIn(jwksText, "the JWK Set") };
}

/** Reads the issuer of a discovery document. @throws OperatorError if it is not JSON or names none. */
export function issuerIn(discoveryText: string): string {
  const document = discovery.safeParse(documentIn(discoveryText, "the discovery document"));
  if (!document.success) throw new OperatorError("the discovery document names no issuer");
  return document.data.issuer;
}

function documentIn(text: string, what: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw new OperatorError(`${what} is not JSON`);
  }
}

/**
 * Makes the table of a cluster, with the reasons for its contents: without keys if the issuer publishes the same keys
 * to everybody, otherwise with the keys inline.
 * @throws OperatorError if no keys can be loaded, or the CA would refuse the table.
 */
export async function enrol(
  { issuer, jwks }: IssuerDocuments,
  settings: EnrolmentSettings,
  fetchJson: DocumentFetch,
) {
  const fault = await discoveryFault({ issuer, jwks }, settings, fetchJson);
  const reasons = fault ? [fault] : [`${issuer} answers without credentials, from this machine`];
  if (fault && jwks === undefined) {
    throw new OperatorError(`${fault}; give its keys by a kubeconfig or by files`);
  }
  const chosen = fault
    ? "the keys are inline: run this command again when the cluster changes them"
    : "Rampart fetches the keys from the issuer, and follows its changes";
  const keys = fault ? { jwks: { keys: publicKeys(jwks) } } : {};
  const table = { issuer, ...shared(settings), ...keys };
  requireServable(table);
  return { table, reasons: [...reasons, chosen] };
}

function shared({ cluster, audiences, kubernetes }: EnrolmentSettings): Record<string, unknown> {
  const { ca, ...access } = kubernetes ?? {};
  const suffix = cluster.toUpperCase().replace(/[^A-Z0-9]/g, "_");
  const credential = `CLUSTER_CREDENTIAL_${suffix}`.slice(0, 64);
  return {
    cluster,
    ...(audiences.join() !== "istio-ca" && { audiences: [...audiences] }),
    ...(kubernetes && { kubernetes: { ...access, credential, ...(ca !== undefined && { ca }) } }),
  };
}

/** Why discovery cannot serve these keys; `undefined` if it can. */
async function discoveryFault(
  { issuer, jwks }: IssuerDocuments,
  { platform }: EnrolmentSettings,
  fetchJson: DocumentFetch,
): Promise<string | undefined> {
  if (!isSafeToFetch(issuer)) return `${issuer} is not an https URL`;
  if (!Host.isPublic(new URL(issuer).hostname)) {
    const why =
      platform === "worker"
        ? "which the edge cannot reach"
        : "whose certificate no public CA signs";
    return `${issuer} is a private name or address, ${why}`;
  }
  try {
    const { url, reach } = await IssuerKeys.discover(issuer, fetchJson);
    const published = await fetchJson[reach](url);
    if (!KeySet.parse(published)) return `${issuer} publishes ${KeySet.fault(published)}`;
    if (jwks === undefined || isCovered(jwks, published)) return undefined;
    return `${issuer} publishes other keys than the cluster has shown: find out why`;
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    return `${issuer} ${error.message} to a request without credentials`;
  }
}

/** Whether the issuer publishes every key that the cluster has shown. */
function isCovered(shown: unknown, published: unknown): boolean {
  const others = new Set(publicKeys(published).map((key) => JSON.stringify(key)));
  return publicKeys(shown).every((key) => others.has(JSON.stringify(key)));
}

const text = z.optional(z.string());

const jwk = z.object({
  kty: z.string(),
  kid: text,
  alg: text,
  use: text,
  crv: text,
  n: text,
  e: text,
  x: text,
  y: text,
});

/** Finds the usable keys of a key set, reduced to their public members. */
function publicKeys(jwks: unknown): z.infer<typeof jwk>[] {
  const parsed = z.object({ keys: z.array(jwk) }).safeParse(jwks);
  const keys = parsed.success ? parsed.data.keys : [];
  return keys.filter((key) => {
    const [usable] = KeySet.parse({ keys: [key] }) ?? [];
    return (
      usable !== undefined &&
      KeySet.candidates([usable], usable.algorithms[0] ?? "", key.kid).length > 0
    );
  });
}

/** Requires a table that Rampart accepts. @throws OperatorError that names the first wrong key. */
export function requireServable(table: unknown): void {
  const parsed = IssuerTable.schema.safeParse([table], inEnglish);
  if (parsed.success) return;
  const [issue] = parsed.error.issues;
  throw new OperatorError(`${issue?.path.slice(1).join(".")}: ${issue?.message}`);
}

const texts: Readonly<Record<EnrolmentSettings["platform"], (table: object) => string>> = {
  worker: (table) => toToml({ vars: { ISSUERS: [table] } }),
  serve: (table) => toToml({ ISSUERS: [table] }),
  // Helm reads YAML 1.1, where `n` of an RSA key and `y` of an EC key are booleans unless they are quoted.
  helm: (table) => toYaml({ issuers: [table] }, { version: "1.1", lineWidth: 0 }),
};

/**
 * Formats the table as an item of `ISSUERS`: TOML for serve, TOML below `vars` for a Worker, YAML 1.1 for Helm's values.
 * Above it are the reasons as `#` comments.
 */
export function formatEnrolment(
  { table, reasons }: { readonly table: object; readonly reasons: readonly string[] },
  platform: EnrolmentSettings["platform"],
): string {
  return [...reasons.map((reason) => `# ${reason}`), texts[platform](table).trim()].join("\n");
}
