import { type Finding, finding } from "../../../ca/checkup/finding.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { overlapFindings } from "./overlap-findings.ts";

/** Names that RFC 2606 §2 and §3 reserve for examples. */
const exampleHost = /(?:^|\.)(?:example(?:\.(?:com|net|org))?|invalid)$/;

/** The id that the comment of `wrangler.toml` shows. */
const exampleNamespaceId = "0123456789abcdef0123456789abcdef";

/** Findings about a valid configuration by itself. */
export function configurationFindings({
  issuers,
  warnings,
}: Pick<Configuration, "issuers" | "warnings">): readonly Finding[] {
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

/** The examples that a `wrangler.toml` still has outside `[vars]`, by its text. */
export function wranglerFindings(text: string): readonly Finding[] {
  const isSet = (line: RegExp): boolean => line.test(text);
  return [
    ...(isSet(new RegExp(`^\\s*id\\s*=\\s*"${exampleNamespaceId}"`, "m"))
      ? [
          finding(
            "configuration-example",
            "The KV namespace AUTHORITIES has the example id.",
            "wrangler kv namespace create AUTHORITIES, and set the id that it prints",
          ),
        ]
      : []),
    ...(isSet(/^\s*routes\s*=.*[".]example\.(?:com|net|org)"/m)
      ? [
          finding(
            "configuration-example",
            "routes has an example host name.",
            "Set the host name on which the CA answers",
          ),
        ]
      : []),
  ];
}
