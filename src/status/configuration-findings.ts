import type { Configuration } from "../config/configuration.ts";
import type { IssuerTable } from "../config/issuer-table.ts";
import { commonName, nameAllowList } from "../foundation/globs.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import { Finding } from "./finding.ts";
import { subjectFindings } from "./subject-findings.ts";

/** Names that RFC 2606 §2 and §3 reserve for examples. */
const exampleHost = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid)$/;

const enrolCluster = "`rampart cluster enrol`";
const enrolIssuer = "`rampart issuer enrol`";

/** Findings about a valid configuration alone, without a request to anybody. */
export function configurationFindings({
  issuers,
  warnings,
}: Pick<Configuration, "warnings"> & {
  readonly issuers: readonly IssuerTable[];
}): readonly Finding[] {
  const examples = issuers.filter(({ issuer }) => isExample(issuer));
  return [
    ...examples.map(({ issuer, subjects }) =>
      Finding.of(
        "configuration-example",
        `ISSUERS has the example issuer ${issuer}.`,
        `${subjects ? enrolIssuer : enrolCluster}, and put the table that it prints in place of the example`,
      ),
    ),
    ...warnings.map((warning) =>
      Finding.of(
        "configuration-warning",
        `${warning}.`,
        "See `rampart docs clusters` and `rampart docs configuration`",
      ),
    ),
    ...overlapFindings(issuers),
    ...subjectFindings(issuers),
    ...issuers.flatMap(refusedAccounts),
  ];
}

/** Finds accounts to which a table gives a role although its issuer may not vouch for their namespaces. */
function refusedAccounts(table: IssuerTable): Finding[] {
  const { issuer, namespaces, trusted_node_accounts, gateways, cluster_signers } = table;
  const isServed = nameAllowList(namespaces);
  const accounts = {
    trusted_node_accounts,
    gateways: accountsOf(gateways),
    cluster_signers: accountsOf(cluster_signers),
    intermediates: accountsOf(table.intermediates),
  };
  return Object.entries(accounts).flatMap(([key, named]) =>
    named.flatMap(({ namespace, name }) => {
      if (isServed(namespace)) return [];
      const what = `${key} of ${issuer} has ${namespace}/${name}, and the issuer may not vouch for ${namespace}.`;
      const remedy = `Add ${namespace} to namespaces of that table in ISSUERS, or remove the account from ${key}`;
      return [Finding.of("account-refused", what, remedy)];
    }),
  );
}

const accountsOf = (rows: readonly { readonly account: ServiceAccount }[]) =>
  rows.map(({ account }) => account);

function isExample(issuer: string): boolean {
  const url = URL.parse(issuer);
  return url !== null && (exampleHost.test(url.hostname) || url.pathname.endsWith("/EXAMPLE"));
}

/** RFC 1123 §2.1, which Kubernetes applies to namespaces. */
const longestNamespace = 63;

/** An issuer, and the namespaces that its tokens may name, as globs. */
type VouchingIssuer = Readonly<Pick<IssuerTable, "issuer" | "cluster" | "namespaces" | "subjects">>;

/**
 * Findings about issuers of different clusters whose globs match a common namespace: one for each issuer that shares a
 * namespace with a later one. Two issuers of one cluster may share namespaces, because a cluster changes its issuer in
 * this way.
 */
function overlapFindings(issuers: readonly VouchingIssuer[]): readonly Finding[] {
  // Leaves out issuers for all namespaces, because the start and `rampart doctor` warn of them already.
  const limited = issuers.filter(({ namespaces }) => !namespaces.includes("*"));
  return limited.flatMap((table, i) => {
    const overlaps = limited.slice(i + 1).flatMap((other) => overlapOf(table, other) ?? []);
    const [first, ...more] = overlaps;
    return first ? [overlapFinding(table, first, more.length)] : [];
  });
}

function overlapOf(table: VouchingIssuer, other: VouchingIssuer) {
  if (table.cluster === other.cluster) return undefined;
  // If both tables have `subjects`, the operator has chosen each account, so an overlap is intended.
  if (table.subjects && other.subjects) return undefined;
  for (const one of table.namespaces) {
    for (const another of other.namespaces) {
      const example = commonName(one, another);
      if (example !== undefined && example.length <= longestNamespace) {
        return { other, globs: `${one} and ${another}`, example };
      }
    }
  }
  return undefined;
}

function overlapFinding(
  { issuer, cluster }: VouchingIssuer,
  { other, globs, example }: NonNullable<ReturnType<typeof overlapOf>>,
  more: number,
): Finding {
  const others = more > 0 ? ` The same is true of ${more} more issuers.` : "";
  const what = `Tokens of ${issuer} (cluster ${cluster}) and of ${other.issuer} (cluster ${other.cluster}) may name one namespace, such as ${example} (${globs}).${others}`;
  return Finding.of(
    "namespaces-overlap",
    what,
    "Narrow namespaces of one of the two in ISSUERS; `rampart cluster check` shows what each may name",
  );
}
