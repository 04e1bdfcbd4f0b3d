import { type Finding, finding } from "../../../status/finding.ts";

/** The id that the comment of `wrangler.toml` shows. */
const exampleNamespaceId = "0123456789abcdef0123456789abcdef";

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
