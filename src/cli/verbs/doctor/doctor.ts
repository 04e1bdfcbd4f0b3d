import { basename } from "node:path";
import { Command } from "commander";
import type { Configuration } from "../../../config/configuration.ts";
import { InceptionDate } from "../../../config/signer-table.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { configurationFindings } from "../../../status/configuration-findings.ts";
import { Finding } from "../../../status/finding.ts";
import { configOf, type DeploymentChoice } from "../../session/deployment.ts";
import { type DeployedParts, readConfig, readConfiguration } from "../../session/local-worker.ts";
import { addExitCodes, addPlaceOptions, exitCodes } from "../../terminal/command-line.ts";
import type { Screen, Terminal } from "../../terminal/terminal.ts";
import { wrap } from "../../terminal/text.ts";
import { addLoginOptions } from "../cluster/cluster-inspection.ts";
import {
  configurationFault,
  type Examination,
  type ExaminationChoice,
  examine,
  type Judgement,
  judged,
  textFindings,
} from "./examination.ts";

/** The exit codes of a checkup, by its worst finding. */
const codes: Readonly<Record<Finding["severity"], number>> = {
  note: exitCodes.done,
  warning: exitCodes.attention,
  error: exitCodes.broken,
};

interface DoctorOptions extends ExaminationChoice {
  readonly json?: boolean;
  /** Whether to examine what `wrangler deploy` takes, without the store and the servers. */
  readonly deploy?: boolean;
}

/** `rampart doctor`: examines a CA, before a deployment and in a cron job. The worst finding decides the exit code. */
export function doctorCommand(terminal: Terminal): Command {
  const doctor = addExitCodes(new Command("doctor"), {
    attention: "The worst finding is a warning.",
    broken: "There is an error among the findings.",
  });
  return addLoginOptions(addPlaceOptions(doctor))
    .description(
      "look for faults in the configuration, the store, the issuers and the clusters; changes nothing",
    )
    .option("--offline", "ask neither the CA nor issuers nor API servers")
    .option("--deploy", "look at what wrangler deploys, and at nothing of this machine")
    .option("--json", "print JSON")
    .action(async (options: DoctorOptions) => {
      terminal.nameCa(options);
      const look = options.deploy ? examineDeployment : examine;
      const work = () => look(options, terminal);
      const examined = await terminal.progress("examining the CA", work, options);
      const findings = examined.findings.map((each) => ({
        ...each,
        remedy: terminal.typed(each.remedy),
      }));
      const examination = { ...examined, findings };
      terminal.answer(examinationJson(examination), options, () =>
        formatExamination(terminal, examination),
      );
      const worst = Finding.worstOf(examination.findings);
      if (worst) terminal.exitWith(codes[worst]);
    });
}

const page = "rampart docs troubleshoot";

const examinationJson = ({ place, at, findings }: Examination): object => ({
  place,
  at,
  worst: Finding.worstOf(findings),
  findings: findings.map((found) => ({ ...found, page })),
});

function formatExamination(screen: Screen, { place, findings }: Examination): string {
  const where = place === undefined ? "The store was not looked at." : `Looked at the ${place}.`;
  if (findings.length === 0)
    return `${where}\nNothing was found. Whether the CA runs, its /readyz says.`;
  return [where, ...findings.map((each) => formatFinding(screen, each)), summary(findings)].join(
    "\n\n",
  );
}

function formatFinding(screen: Screen, finding: Judgement): string {
  const { name, severity, what, why, remedy, source } = finding;
  const heading = `${screen.styled(meanings[severity], severity.toUpperCase())}  ${screen.styled("heading", name)}`;
  const lines = [what, why, `Judged by: ${source}`, `→ ${remedy}`].flatMap((line) =>
    wrap(`  ${line}`, screen.width, "    "),
  );
  return [heading, ...lines].join("\n");
}

const meanings = { note: "quiet", warning: "warning", error: "bad" } as const;

function summary(findings: readonly Finding[]): string {
  const counts = (["error", "warning", "note"] as const).map((severity) => {
    const count = findings.filter((each) => each.severity === severity).length;
    return count === 0 ? [] : [`${count} ${severity}${count === 1 ? "" : "s"}`];
  });
  return `${counts.flat().join(", ")}. \`${page}\` explains each.`;
}

/** A placeholder in the form of a KEK, because nobody can read the secret of a deployed Worker. */
const anyKek = `k1:${"A".repeat(43)}=`;

/**
 * Examines what `wrangler deploy` would deploy: the file, with the `KEK` of the environment if it is set, and neither
 * `.dev.vars`, which stays here, nor a store.
 *
 * @throws OperatorError for another file than a `wrangler.toml`, and for one that cannot be read.
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
    ...variableFindings({ ...parts.vars, KEK }, clock()),
  ];
  const name = basename(config);
  const place = `variables and bindings of ${name}, which wrangler deploys, and at no store`;
  return { place, at: clock(), findings: Finding.worstFirst(judged(name, findings)) };
}

function variableFindings(
  variables: Readonly<Record<string, unknown>>,
  now: Date,
): readonly Finding[] {
  let configuration: Configuration;
  try {
    configuration = readConfiguration(variables, "");
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [configurationFault(error.message)];
  }
  return [...configurationFindings(configuration), ...inceptionFindings(configuration, now)];
}

/** Findings about the inception date, which concern a first deployment only: the store is not read. */
function inceptionFindings({ inceptionDate }: Configuration, now: Date): Finding[] {
  if (inceptionDate !== undefined && !InceptionDate.isOver(inceptionDate, now)) return [];
  const what = `INCEPTION_DATE ${inceptionDate === undefined ? "is not set" : `${inceptionDate} is over`}.`;
  const remedy = `Before a first deployment, set INCEPTION_DATE = "${InceptionDate.dayOf(now)}"; later, leave it`;
  return [Finding.of("inception-date-over", what, remedy)];
}

function bindingFindings({ kv_namespaces, routes, workers_dev }: DeployedParts): Finding[] {
  const namespace = kv_namespaces.find(({ binding }) => binding === "AUTHORITIES");
  const isWithoutId = namespace?.id === undefined;
  const isWithoutName = (routes ?? []).length === 0 && !workers_dev;
  const example = (what: string, remedy: string): Finding =>
    Finding.of("configuration-example", what, remedy);
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
