import * as z from "zod/mini";
import { type JudgedKeySet, parseKeySet, unusableKeysIn } from "../authn/token/key-set.ts";
import { isSafeToFetch } from "../foundation/text/base-url.ts";
import { durationSeconds } from "../foundation/text/duration.ts";
import { globList, globs } from "../foundation/text/globs.ts";
import { jsonText } from "../foundation/text/json-text.ts";
import { refuse } from "../foundation/text/parsed-text.ts";
import type { ServiceAccount, TrustDomain } from "../pki/spiffe-id.ts";
import { type ClusterAccessTable, clusterAccess } from "./cluster-access.ts";
import { accountName, clusterName, dnsName, trustDomainText } from "./text-forms.ts";

/** One table of `ISSUERS`, checked. */
export interface IssuerTable {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly cluster: string;
  readonly cluster_aliases: readonly string[];
  readonly jwks_uri?: string | undefined;
  readonly jwks?: JudgedKeySet | undefined;
  readonly namespaces: readonly string[];
  readonly trusted_node_accounts: readonly ServiceAccount[];
  readonly node_checks?: "api" | "claims" | undefined;
  /** Present if a token's own claims decide what a node proxy may have. */
  readonly node_reach?: NodeReachSetting | undefined;
  readonly gateways: readonly GatewayTable[];
  readonly cluster_signers: readonly ClusterSignerTable[];
  readonly intermediates: readonly IntermediateTable[];
  /** In seconds. */
  readonly renewal_limit?: number | undefined;
  readonly kubernetes?: ClusterAccessTable | undefined;
}

/** The namespaces that proxies may name, by node; `"anywhere"` is every namespace from every node. */
export type NodeReachSetting = "anywhere" | readonly NodeReachTable[];

/** One table of `node_reach` of an issuer, checked. */
export interface NodeReachTable {
  readonly nodes: readonly string[];
  readonly namespaces: readonly string[];
}

/** One table of `gateways` of an issuer, checked. */
export interface GatewayTable {
  readonly account: ServiceAccount;
  readonly dns_names: readonly string[];
  /** The part of a client's certificate that it forwards: all, or its name alone, as Istio's Envoy does. */
  readonly forwards: "certificates" | "identities";
}

/** One table of `cluster_signers` of an issuer, checked. Both lists are globs. */
export interface ClusterSignerTable {
  readonly account: ServiceAccount;
  /** The namespaces of the workloads whose X509-SVIDs it may request. */
  readonly namespaces: readonly string[];
  /** The DNS names that it may request for services. */
  readonly dns_names: readonly string[];
}

/** One table of `intermediates` of an issuer, checked: an account that may ask for an intermediate CA. */
export interface IntermediateTable {
  readonly account: ServiceAccount;
  /** Of the certificates below the intermediate. */
  readonly trust_domain: TrustDomain;
  readonly path_length: number;
  readonly name_constraints: boolean;
}

const keySet = z.transform((value: unknown, context): JudgedKeySet => {
  const usable = parseKeySet(value);
  if (!usable) return refuse(context, "must be a JWK Set with a key for signatures");
  if (hasPrivateKey(value)) return refuse(context, "must not hold a private key");
  return { usable, unusable: unusableKeysIn(value) };
});

/** The private and secret members of a JWK (RFC 7518 §6). No key of the set may have one, usable or not. */
const secretMembers = ["d", "k", "p", "q", "dp", "dq", "qi"];

function hasPrivateKey(keySet: unknown): boolean {
  const { keys } = Object(keySet) as { readonly keys?: unknown };
  if (!Array.isArray(keys)) return false;
  return keys.some((key) => secretMembers.some((member) => member in Object(key)));
}

const gateway = z.strictObject({
  account: accountName,
  dns_names: z.array(dnsName).check(z.minLength(1), z.maxLength(32)),
  forwards: z._default(z.enum(["certificates", "identities"]), "certificates"),
});

const clusterSigner = z
  .strictObject({
    account: accountName,
    namespaces: z._default(globList(/^[a-z0-9*-]{1,63}$/, "namespace"), []),
    dns_names: z._default(globList(/^[a-z0-9.*-]{1,253}$/, "DNS name"), []),
  })
  .check(
    z.refine(({ namespaces, dns_names }) => namespaces.length + dns_names.length > 0, {
      path: ["namespaces"],
      error:
        "is required without dns_names: list the namespaces of workloads, or the names of services",
    }),
  );

const intermediate = z.strictObject({
  account: accountName,
  trust_domain: trustDomainText,
  path_length: z._default(z.int().check(z.minimum(0), z.maximum(6)), 0),
  name_constraints: z._default(z.boolean(), false),
});

const oneLine = z.string().check(
  z.regex(/^[\x21-\x7e]{1,1024}$/, {
    error: "must be 1 to 1024 printable characters",
    abort: true,
  }),
);

const namespaces = globs(/^[a-z0-9*-]{1,63}$/, "namespace");

const nodeReach = z.strictObject({ nodes: globs(/^[a-z0-9.*-]{1,253}$/, "node"), namespaces });

const nodeReaches = z.array(nodeReach).check(z.minLength(1), z.maxLength(256));

/** Empty by default. */
const upToSixteen = <Element extends z.ZodMiniType>(element: Element) =>
  z._default(z.array(element).check(z.maxLength(16)), []);

const table = z
  .strictObject({
    issuer: oneLine,
    audiences: z._default(z.array(oneLine).check(z.minLength(1), z.maxLength(16)), ["istio-ca"]),
    cluster: z._default(clusterName, "Kubernetes"),
    cluster_aliases: upToSixteen(clusterName),
    jwks_uri: z.optional(z.string().check(z.refine(isSafeToFetch, "must be an https URL"))),
    jwks: z.optional(z.pipe(jsonText, keySet)),
    namespaces,
    trusted_node_accounts: upToSixteen(accountName),
    node_checks: z.optional(z.enum(["api", "claims"])),
    node_reach: z.optional(
      z.union([z.literal("anywhere"), nodeReaches], {
        error: 'must be "anywhere" or a list of tables of nodes and namespaces',
      }),
    ),
    gateways: upToSixteen(gateway),
    cluster_signers: upToSixteen(clusterSigner),
    intermediates: upToSixteen(intermediate),
    renewal_limit: z.optional(durationSeconds),
    kubernetes: z.optional(clusterAccess),
  })
  .check(
    z.refine(({ jwks, jwks_uri }) => jwks === undefined || jwks_uri === undefined, {
      path: ["jwks"],
      error: "excludes jwks_uri: give one of the two",
    }),
    z.refine(
      (each) => each.jwks || each.jwks_uri || isSafeToFetch(each.issuer) || needsNoKeys(each),
      {
        path: ["issuer"],
        error: "must be an https URL for discovery, or have jwks_uri or jwks beside it",
      },
    ),
    z.refine((each) => !hasTwoParts(each), {
      path: ["cluster_signers"],
      error: "must name each account once, and no node proxy and no gateway",
    }),
    z.refine(({ node_checks, kubernetes }) => node_checks !== "api" || kubernetes, {
      path: ["node_checks"],
      error: "must have the table kubernetes beside it, or be claims",
    }),
    z.refine((each) => each.node_reach !== undefined || !needsNodeReach(each), {
      path: ["node_reach"],
      error:
        'is required with trusted_node_accounts where no API server is asked: list nodes with their namespaces, or write node_reach = "anywhere"',
    }),
  );

/** Bounds the work at the start. A variable of a Worker (5 kB) holds far fewer. */
const maximumTables = 1024;

/** Whether only the claims of its token bound what a node proxy may have. */
const needsNodeReach = ({
  trusted_node_accounts,
  node_checks,
  kubernetes,
}: Pick<IssuerTable, "trusted_node_accounts" | "node_checks" | "kubernetes">): boolean =>
  trusted_node_accounts.length > 0 && (node_checks === "claims" || !kubernetes);

/** The rights of a signer would add to the others unseen. */
function hasTwoParts({
  cluster_signers,
  gateways,
  trusted_node_accounts,
}: Pick<IssuerTable, "cluster_signers" | "gateways" | "trusted_node_accounts">): boolean {
  const nameOf = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;
  const signers = cluster_signers.map(({ account }) => nameOf(account));
  const others = [...trusted_node_accounts, ...gateways.map(({ account }) => account)].map(nameOf);
  return new Set(signers).size < signers.length || others.some((each) => signers.includes(each));
}

const needsNoKeys = ({ kubernetes }: Pick<IssuerTable, "kubernetes">): boolean =>
  kubernetes?.review === "instead-of-keys";

const tables = z.array(table).check(
  z.minLength(1, "must name at least one issuer"),
  z.maxLength(maximumTables),
  z.superRefine((list, context) => {
    const first = new Map(list.map(({ issuer }, i) => [issuer, i] as const).toReversed());
    for (const [i, { issuer }] of list.entries()) {
      if (first.get(issuer) === i) continue;
      const message = `is that of ISSUERS[${first.get(issuer)}] too: each cluster needs its own`;
      context.addIssue({ code: "custom", path: [i, "issuer"], message });
    }
  }),
);

/** `ISSUERS`: a list of tables, or the same as JSON in a text. */
export const issuerTables: z.ZodMiniType<readonly IssuerTable[]> = z.pipe(jsonText, tables);
