import { type Finding, finding } from "./finding.ts";
import { overlapFindings, type VouchingIssuer } from "./overlap-findings.ts";

/** Names that RFC 2606 §2 and §3 reserve for examples. */
const exampleHost = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid)$/;

/** The parts of a valid configuration that a checkup reads. */
export interface ExaminedConfiguration {
  readonly issuers: readonly VouchingIssuer[];
  /** One sentence each. */
  readonly warnings: readonly string[];
}

/** Findings about a valid configuration by itself. */
export function configurationFindings({
  issuers,
  warnings,
}: ExaminedConfiguration): readonly Finding[] {
  const examples = issuers.filter(({ issuer }) => isExample(issuer));
  return [
    ...examples.map(({ issuer }) =>
      finding(
        "configuration-example",
        `ISSUERS has the example issuer ${issuer}.`,
        "rampart cluster enrol, and put the table that it prints in place of the example",
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
