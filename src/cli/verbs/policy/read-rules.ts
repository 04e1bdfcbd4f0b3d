import { createPolicy } from "../../../ca/policy/policy.ts";
import type { Product } from "../../../ca/policy/rule.ts";
import { type Configuration, parseConfiguration } from "../../../config/configuration.ts";
import { readConfigurationFile } from "../../../node/files/configuration-file.ts";
import { readWorkerVariables } from "../../session/local-worker.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import type { Replayed } from "./replayed.ts";

/** The keys by which a policy is judged. No secret is among them, and none is needed. */
const judged = [
  ...["TRUST_DOMAIN", "ISSUERS", "SIGNERS", "POLICY"],
  ...["DEFAULT_WORKLOAD_CERT_TTL", "MAX_WORKLOAD_CERT_TTL", "DEFAULT_JWT_TTL", "MAX_JWT_TTL"],
];

const unjudged = {
  KEK: `none:${Buffer.alloc(32, 1).toString("base64")}`,
  JWT_ISSUER: "https://issuer.invalid",
};

/** The rules of a configuration. @throws OperatorError with every fault of it. */
export async function readRules(
  terminal: Terminal,
  config: string,
  env?: string,
): Promise<Replayed & { readonly configuration: Configuration }> {
  const values = /wrangler\.(?:toml|jsonc?)$/.test(config)
    ? await readWorkerVariables(config, env)
    : await orOperatorError(() => readConfigurationFile(config, {}));
  const entries = Object.entries(values).filter(([key]) => judged.includes(key));
  const configuration = await orOperatorError(async () =>
    parseConfiguration({ ...Object.fromEntries(entries), ...unjudged }),
  );
  for (const warning of configuration.warnings) {
    if (warning.startsWith("POLICY")) terminal.complain(warning);
  }
  const policy = createPolicy(configuration.policy ?? { shadow: false, cases: [], rules: [] });
  const { leafLifetimes, tokens = leafLifetimes } = configuration;
  const lifetimesOf = (product: Product) => (product === "token" ? tokens : leafLifetimes);
  return { policy, lifetimesOf, configuration };
}
