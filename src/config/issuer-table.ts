import * as z from "zod";
import { isSafeToFetch } from "../authn/issuer-keys.ts";
import { type KeySet, parseKeySet } from "../authn/key-set.ts";
import { isDnsName } from "../pki/dns-name.ts";
import { parseServiceAccount, type ServiceAccount } from "../pki/spiffe-id.ts";
import { type ClusterAccessTable, clusterAccess } from "./cluster-access.ts";
import { globs } from "./globs.ts";
import { fromText } from "./json-text.ts";

/** One table of `ISSUERS`, checked. */
export interface IssuerTable {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly cluster: string;
  readonly cluster_aliases: readonly string[];
  readonly jwks_uri?: string | undefined;
  readonly jwks?: KeySet | undefined;
  readonly namespaces: readonly string[];
  readonly trusted_node_accounts: readonly ServiceAccount[];
  readonly node_checks?: "api" | "claims" | undefined;
  readonly node_reach: readonly NodeReachTable[];
  readonly gateways: readonly GatewayTable[];
  readonly kubernetes?: ClusterAccessTable | undefined;
}

/** One table of `node_reach` of an issuer, checked. */
export interface NodeReachTable {
  readonly nodes: readonly string[];
  readonly namespaces: readonly string[];
}

/** One table of `gateways` of an issuer, checked. */
export interface GatewayTable {
  readonly account: ServiceAccount;
  readonly dns_names: readonly string[];
}

const keySet = z.unknown().transform((value, context): KeySet => {
  const keys = parseKeySet(value);
  if (keys && !hasPrivateKey(value)) return keys;
  context.addIssue(
    keys ? "must not hold a private key" : "must be a JWK Set with a key for signatures",
  );
  return z.NEVER;
});

/** The private and secret members of RFC 7518 §6; in any key of the set, of use or not. */
const secretMembers = ["d", "k", "p", "q", "dp", "dq", "qi"];

function hasPrivateKey(keySet: unknown): boolean {
  const { keys } = Object(keySet) as { readonly keys?: unknown };
  if (!Array.isArray(keys)) return false;
  return keys.some((key) => secretMembers.some((member) => member in Object(key)));
}

const accountName = z.string().transform((text, context): ServiceAccount => {
  const [namespace = "", name = "", ...rest] = text.split("/");
  const account = rest.length === 0 ? parseServiceAccount(namespace, name) : undefined;
  if (account) return account;
  context.addIssue("must be <namespace>/<service account>");
  return z.NEVER;
});

const gateway = z.strictObject({
  account: accountName,
  dns_names: z
    .array(z.string().refine(isDnsName, "must be the name of a host, in lower case"))
    .min(1)
    .max(32),
});

const oneLine = z
  .string()
  .regex(/^[\x21-\x7e]{1,1024}$/, { error: "must be 1 to 1024 printable characters", abort: true });

const namespaces = globs(/^[a-z0-9*-]{1,63}$/, "namespace");

const nodeReach = z.strictObject({ nodes: globs(/^[a-z0-9.*-]{1,253}$/, "node"), namespaces });

const clusterName = z.string().regex(/^[A-Za-z0-9._/-]{1,253}$/, "must be a cluster's name");

const table = z
  .strictObject({
    issuer: oneLine,
    audiences: z.array(oneLine).min(1).max(16).default(["istio-ca"]),
    cluster: clusterName.default("Kubernetes"),
    cluster_aliases: z.array(clusterName).max(16).default([]),
    jwks_uri: z.string().refine(isSafeToFetch, "must be an https URL").optional(),
    jwks: z.unknown().transform(fromText).pipe(keySet).optional(),
    namespaces,
    trusted_node_accounts: z.array(accountName).max(16).default([]),
    node_checks: z.enum(["api", "claims"]).optional(),
    node_reach: z
      .array(nodeReach)
      .min(1)
      .max(256)
      .default([{ nodes: ["*"], namespaces: ["*"] }]),
    gateways: z.array(gateway).max(16).default([]),
    kubernetes: clusterAccess.optional(),
  })
  .refine(({ jwks, jwks_uri }) => jwks === undefined || jwks_uri === undefined, {
    path: ["jwks"],
    message: "must not stand beside jwks_uri",
  })
  .refine((each) => each.jwks || each.jwks_uri || isSafeToFetch(each.issuer) || needsNoKeys(each), {
    path: ["issuer"],
    message: "must be an https URL for discovery, or have jwks_uri or jwks beside it",
  })
  .refine(({ node_checks, kubernetes }) => node_checks !== "api" || kubernetes, {
    path: ["node_checks"],
    message: "must have the table kubernetes beside it, or be claims",
  });

/** Bounds the work of a start; a variable of a Worker (5 kB) holds far fewer. */
const maximumTables = 1024;

const needsNoKeys = ({ kubernetes }: Pick<IssuerTable, "kubernetes">): boolean =>
  kubernetes?.review === "instead-of-keys";

const tables = z
  .array(table)
  .min(1, "must name at least one issuer")
  .max(maximumTables)
  .superRefine((list, context) => {
    const first = new Map(list.map(({ issuer }, i) => [issuer, i] as const).toReversed());
    for (const [i, { issuer }] of list.entries()) {
      if (first.get(issuer) === i) continue;
      const message = `is that of ISSUERS[${first.get(issuer)}] too: each cluster needs its own`;
      context.addIssue({ code: "custom", path: [i, "issuer"], message });
    }
  });

/** `ISSUERS`: a list of tables, or the same as JSON in a text. */
export const issuerTables: z.ZodType<readonly IssuerTable[]> = z
  .unknown()
  .transform(fromText)
  .pipe(tables);
