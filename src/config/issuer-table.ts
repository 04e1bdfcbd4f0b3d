import * as z from "zod/mini";
import { isSafeToFetch } from "../foundation/addresses.ts";
import { globList, globs } from "../foundation/globs.ts";
import { bearerToken } from "../foundation/headers.ts";
import { baseUrl, Duration, jsonText, refuse } from "../foundation/text.ts";
import { configMapName } from "../kubernetes/names.ts";
import { type JudgedKeySet, KeySet } from "../pki/jose/key-set.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import { matching, NameForm } from "./form.ts";
import {
  type Fault,
  reachingFaults,
  subjectFaults,
  subjectKeys,
} from "./internal/subject-table.ts";
import { certificatesInPem } from "./internal/upstream.ts";
import { clusterCredential } from "./secrets.ts";

/** The audiences of tokens. */
const audienceGlobs = globList(/^[\x21-\x7e]{1,255}$/, "audience").check(
  z.minLength(1, "must not be empty"),
);

const keySet = z.transform((value: unknown, context): JudgedKeySet => {
  const usable = KeySet.parse(value);
  if (!usable)
    return refuse(
      context,
      `must be a JWK Set with a key for signatures: it is ${KeySet.fault(value)}`,
    );
  if (hasPrivateKey(value)) return refuse(context, "must not hold a private key");
  return { usable, unusable: KeySet.unusable(value) };
});

/** The private and secret members of a JWK (RFC 7518 §6). No key of the set may have one, usable or not. */
const secretMembers = ["d", "k", "p", "q", "dp", "dq", "qi"];

function hasPrivateKey(keySet: unknown): boolean {
  const { keys } = Object(keySet) as { readonly keys?: unknown };
  if (!Array.isArray(keys)) return false;
  return keys.some((key) => secretMembers.some((member) => member in Object(key)));
}

const gateway = z.strictObject({
  account: NameForm.account,
  dns_names: z.array(NameForm.dns).check(z.minLength(1), z.maxLength(32)),
  /** What the gateway forwards of a client's certificate: all, or the name alone, as Istio's Envoy does. */
  forwards: z._default(z.enum(["certificates", "identities"]), "certificates"),
});

const clusterSigner = z
  .strictObject({
    account: NameForm.account,
    /** The namespaces of the workloads for which the signer may request X509-SVIDs. */
    namespaces: z._default(globList(/^[a-z0-9*-]{1,63}$/, "namespace"), []),
    /** The DNS names that the signer may request for services. */
    dns_names: z._default(globList(/^[a-z0-9.*-]{1,253}$/, "DNS name"), []),
  })
  .check(
    z.refine(({ namespaces, dns_names }) => namespaces.length + dns_names.length > 0, {
      path: ["namespaces"],
      error:
        "is required without dns_names: list the namespaces of workloads, or the names of services",
    }),
  );

/** One table of `cluster_signers` of an issuer, checked. Both lists are globs. */
export type ClusterSignerTable = z.output<typeof clusterSigner>;

/** An account that may ask for an intermediate CA. */
const intermediate = z.strictObject({
  account: NameForm.account,
  /** The trust domain of the certificates that the intermediate signs. */
  trust_domain: NameForm.trustDomain,
  path_length: z._default(z.int().check(z.minimum(0), z.maximum(6)), 0),
  name_constraints: z._default(z.boolean(), false),
});

const oneLine = matching(/^[\x21-\x7e]{1,1024}$/, {
  error: "must be 1 to 1024 printable characters",
  abort: true,
});

const namespaces = globs(/^[a-z0-9*-]{1,63}$/, "namespace");

const nodeReach = z.strictObject({ nodes: globs(/^[a-z0-9.*-]{1,253}$/, "node"), namespaces });
const nodeReaches = z.array(nodeReach).check(z.minLength(1), z.maxLength(256));

/** Makes a schema of a list of at most 16 elements, empty by default. */
const upToSixteen = <Element extends z.ZodMiniType>(element: Element) =>
  z._default(z.array(element).check(z.maxLength(16)), []);

const clusterAccess = z.strictObject({
  server: baseUrl,
  ca: z.optional(certificatesInPem),
  credential: matching(clusterCredential, "must be the name CLUSTER_CREDENTIAL_… of a secret"),
  review: z._default(z.enum(["after-keys", "before-keys", "instead-of-keys"]), "after-keys"),
  /** Whether the CA delivers its roots to the cluster. Off by default, because it takes rights to write. */
  deliver_roots: z.optional(z.boolean()),
  deliver_crls: z.optional(z.boolean()),
  /** The name of the ConfigMap with the roots, whichever program delivers it. */
  config_map: z.optional(configMapName),
});

/** The table `kubernetes` of an issuer, checked: access to the cluster's API server. */
export type ClusterAccessTable = z.output<typeof clusterAccess>;

/** A bearer token. Faults never quote it. */
export const credentialText = matching(bearerToken, "must be a bearer token on one line");

const members = z.strictObject({
  issuer: oneLine,
  audiences: z._default(z.array(oneLine).check(z.minLength(1), z.maxLength(16)), ["istio-ca"]),
  cluster: z._default(NameForm.cluster, "Kubernetes"),
  cluster_aliases: upToSixteen(NameForm.cluster),
  jwks_uri: z.optional(z.string().check(z.refine(isSafeToFetch, "must be an https URL"))),
  jwks: z.optional(z.pipe(jsonText, keySet)),
  namespaces,
  trusted_node_accounts: upToSixteen(NameForm.account),
  node_checks: z.optional(z.enum(["api", "claims"])),
  /** The namespaces for which the proxies of a node may request, if `node_checks` decides by claims. */
  node_reach: z.optional(
    z.union([z.literal("anywhere"), nodeReaches], {
      error: 'must be "anywhere" or a list of tables of nodes and namespaces',
    }),
  ),
  gateways: upToSixteen(gateway),
  cluster_signers: upToSixteen(clusterSigner),
  intermediates: upToSixteen(intermediate),
  renewal_limit: z.optional(Duration.seconds),
  /** The audiences for which the issuer's callers may have JWT-SVIDs; by default none. */
  jwt_audiences: z.optional(audienceGlobs),
  kubernetes: z.optional(clusterAccess),
  ...subjectKeys,
});

/** One table of `ISSUERS`, checked. */
export type IssuerTable = z.output<typeof members>;

const table = members.check(
  z.refine(({ jwks, jwks_uri }) => jwks === undefined || jwks_uri === undefined, {
    path: ["jwks"],
    error: "excludes jwks_uri: give one of the two",
  }),
  z.refine(
    ({ jwks, jwks_uri, issuer, kubernetes }) =>
      jwks || jwks_uri || isSafeToFetch(issuer) || kubernetes?.review === "instead-of-keys",
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
  z.superRefine((each, context) => addFaults(faultsOfSubjects(each), context)),
);

function addFaults(faults: readonly Fault[], context: z.core.$RefinementCtx): void {
  for (const [path, message] of faults) {
    context.addIssue({ code: "custom", path: [...path], message });
  }
}

/** The keys that give rights to ServiceAccounts, and so exclude `subjects`. */
const clusterKeys = [
  ...(["trusted_node_accounts", "node_checks", "node_reach", "gateways"] as const),
  ...(["cluster_signers", "intermediates", "kubernetes"] as const),
];

function faultsOfSubjects(each: IssuerTable): readonly Fault[] {
  const { subjects, recorded_claims } = each;
  const alone = "stands beside subjects alone";
  if (!subjects) return recorded_claims ? [[["recorded_claims"], alone]] : [];
  const excluded = "excludes subjects: an issuer has ServiceAccounts, or a table of claims";
  const given = clusterKeys.filter((key) => isGiven(each[key]));
  return [...given.map((key): Fault => [[key], excluded]), ...subjectFaults(each)];
}

const isGiven = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined;

/** Bounds the work at the start. Far fewer fit into a variable of a Worker (5 kB). */
const maximumTables = 1024;

/** Whether a node proxy may request whatever its token's claims allow, because no API server is asked about its node. */
const needsNodeReach = ({ trusted_node_accounts, node_checks, kubernetes }: IssuerTable): boolean =>
  trusted_node_accounts.length > 0 && (node_checks === "claims" || !kubernetes);

/** Whether an account is a signer twice, or also a node proxy or gateway: its rights would add up unnoticed. */
function hasTwoParts({ cluster_signers, gateways, trusted_node_accounts }: IssuerTable): boolean {
  const nameOf = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;
  const signers = cluster_signers.map(({ account }) => nameOf(account));
  const others = [...trusted_node_accounts, ...gateways.map(({ account }) => account)].map(nameOf);
  return new Set(signers).size < signers.length || others.some((each) => signers.includes(each));
}

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
    addFaults(reachingFaults(list), context);
  }),
);

/** The schema of `ISSUERS`. */
export const IssuerTable = {
  /** `ISSUERS`: a list of tables, or the same as JSON in a text. */
  schema: z.pipe(jsonText, tables),
};

/**
 * Finds clusters that share a key, as copies of one cluster do: each can sign tokens of the other, so nothing isolates
 * them. Two issuers of the same cluster may share theirs: that is how a cluster changes its issuer.
 *
 * Keys that an issuer publishes are not known at the start, so only their URLs are compared.
 *
 * @returns One sentence for each issuer and the first issuer of another cluster that has its key.
 */
export function sharedKeys(issuers: readonly IssuerTable[]): string[] {
  const owners = new Map<string, IssuerTable>();
  const sentences = new Set<string>();
  for (const table of issuers) {
    for (const key of keysOf(table)) {
      const owner = owners.get(key);
      if (!owner) owners.set(key, table);
      else if (owner.cluster !== table.cluster) sentences.add(sentence(owner, table));
    }
  }
  return [...sentences];
}

function keysOf({ jwks, jwks_uri }: IssuerTable): readonly string[] {
  return jwks_uri === undefined ? (jwks?.usable ?? []).map(({ material }) => material) : [jwks_uri];
}

const sentence = (one: IssuerTable, other: IssuerTable): string =>
  `ISSUERS: ${other.issuer} has a key of ${one.issuer}: each of the two clusters can sign for the other`;
