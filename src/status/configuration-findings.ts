import type { Configuration } from "../config/configuration.ts";
import type { IssuerTable } from "../config/issuer-table.ts";
import { commonName } from "../foundation/globs.ts";
import { type Finding, finding } from "./finding.ts";

/** Names that RFC 2606 §2 and §3 reserve for examples. */
const exampleHost = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid)$/;

/** Findings about a valid configuration by itself. */
export function configurationFindings({
  issuers,
  warnings,
}: Pick<Configuration, "warnings"> & {
  readonly issuers: readonly VouchingIssuer[];
}): readonly Finding[] {
  const examples = issuers.filter(({ issuer }) => isExample(issuer));
  return [
    ...examples.map(({ issuer }) =>
      finding(
        "configuration-example",
        `ISSUERS has the example issuer ${issuer}.`,
        "`rampart cluster enrol`, and put the table that it prints in place of the example",
      ),
    ),
    ...warnings.map((warning) =>
      finding(
        "configuration-warning",
        `${warning}.`,
        "See docs/how-to/clusters.md and docs/reference/configuration.md",
      ),
    ),
    ...overlapFindings(issuers),
  ];
}

function isExample(issuer: string): boolean {
  const url = URL.parse(issuer);
  return url !== null && exampleHost.test(url.hostname);
}

/** RFC 1123 §2.1, which Kubernetes applies to namespaces. */
const longestNamespace = 63;

/** An issuer, and the namespaces that its tokens may name, as globs. */
type VouchingIssuer = Readonly<Pick<IssuerTable, "issuer" | "cluster" | "namespaces">>;

/**
 * The issuers of different clusters whose globs match a common namespace, one finding for each issuer with such
 * issuers after it. Two issuers of one cluster may share theirs: that is how a cluster changes its issuer.
 */
function overlapFindings(issuers: readonly VouchingIssuer[]): readonly Finding[] {
  // A start warns of issuers for every namespace, and so does the doctor.
  const limited = issuers.filter(({ namespaces }) => !namespaces.includes("*"));
  return limited.flatMap((table, i) => {
    const overlaps = limited.slice(i + 1).flatMap((other) => overlapOf(table, other) ?? []);
    const [first, ...more] = overlaps;
    return first ? [overlapFinding(table, first, more.length)] : [];
  });
}

function overlapOf(table: VouchingIssuer, other: VouchingIssuer) {
  if (table.cluster === other.cluster) return undefined;
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
  return finding(
    "namespaces-overlap",
    what,
    "Narrow namespaces of one of the two in ISSUERS; `rampart cluster check` shows what each may name",
  );
}
