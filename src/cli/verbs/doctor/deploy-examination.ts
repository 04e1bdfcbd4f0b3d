import { basename } from "node:path";
import type { Configuration } from "../../../config/configuration.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { configurationFindings } from "../../../status/configuration-findings.ts";
import { type Finding, finding, worstFirst } from "../../../status/finding.ts";
import { configOf, type DeploymentChoice, readConfiguration } from "../../session/deployment.ts";
import { type DeployedParts, readConfig } from "../../session/local-worker.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { configurationFault, type Examination, judged, textFindings } from "./examination.ts";

/** A KEK of the right form: that of the deployed Worker is a secret, which nobody can read. */
const anyKek = `k1:${"A".repeat(43)}=`;

/**
 * Examines what `wrangler deploy` would deploy: the file alone, and neither `.dev.vars`, which stays here, nor a store.
 *
 * @throws OperatorError for a file that cannot be read.
 */
export async function examineDeployment(
  choice: DeploymentChoice,
  { environment, clock }: Terminal,
): Promise<Examination> {
  const config = configOf(choice);
  if (!config.endsWith("wrangler.toml"))
    throw new OperatorError(`--deploy is for a wrangler.toml, and not for ${config}`);
  const parts = await readConfig(config, choice.env);
  const { KEK = anyKek } = environment;
  const findings = [
    ...(await textFindings(config)),
    ...bindingFindings(parts),
    ...variableFindings({ ...parts.vars, KEK }),
  ];
  const name = basename(config);
  const place = `variables and bindings of ${name}, which wrangler deploys, and at no store`;
  return { place, at: clock(), findings: worstFirst(judged(name, findings)) };
}

function variableFindings(variables: Readonly<Record<string, unknown>>): readonly Finding[] {
  let configuration: Configuration;
  try {
    configuration = readConfiguration(variables, "");
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [configurationFault(error.message)];
  }
  return configurationFindings(configuration);
}

function bindingFindings({ kv_namespaces, routes, workers_dev }: DeployedParts): Finding[] {
  const namespace = kv_namespaces.find(({ binding }) => binding === "AUTHORITIES");
  const isWithoutId = namespace?.id === undefined;
  const isWithoutName = (routes ?? []).length === 0 && !workers_dev;
  const example = (what: string, remedy: string): Finding =>
    finding("configuration-example", what, remedy);
  return [
    ...(isWithoutId
      ? [
          example(
            "The KV namespace AUTHORITIES has no id.",
            "`npx wrangler kv namespace create AUTHORITIES`, and set the id that it prints",
          ),
        ]
      : []),
    ...(isWithoutName
      ? [
          example(
            "No host name leads to the Worker.",
            "Set routes to the host name on which the CA answers",
          ),
        ]
      : []),
  ];
}
