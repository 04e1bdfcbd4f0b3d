import { Command } from "commander";
import { type Finding, type Severity, worstOf } from "../../../status/finding.ts";
import { addExitCodes, addPlaceOptions, exitCodes } from "../../terminal/command-line.ts";
import type { Screen } from "../../terminal/screen.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { wrap } from "../../terminal/text.ts";
import { addLoginOptions } from "../cluster/cluster-inspection.ts";
import { examineDeployment } from "./deploy-examination.ts";
import {
  type Examination,
  type ExaminationChoice,
  examine,
  type Judgement,
} from "./examination.ts";

/** The exit codes of a checkup, by its worst finding. */
const codes: Readonly<Record<Severity, number>> = {
  note: exitCodes.done,
  warning: exitCodes.attention,
  error: exitCodes.broken,
};

interface DoctorOptions extends ExaminationChoice {
  readonly json?: boolean;
  /** Whether to examine what would be deployed, and nothing of this machine. */
  readonly deploy?: boolean;
}

/** `rampart doctor`: the checkup of a CA, before a deployment and in a cron job. */
export function doctorCommand(terminal: Terminal): Command {
  const doctor = addExitCodes(new Command("doctor"), {
    attention: "The worst finding is a warning.",
    broken: "There is an error among the findings.",
  });
  return addLoginOptions(addPlaceOptions(doctor))
    .description(
      "look for faults in the configuration, the store, the issuers and the clusters; changes nothing",
    )
    .option("--offline", "ask neither issuers nor API servers")
    .option("--deploy", "look at what wrangler deploys, and at nothing of this machine")
    .option("--json", "print JSON")
    .action(async ({ json, deploy, ...choice }: DoctorOptions) => {
      const examination = await terminal.progress(
        "examining the CA",
        () => (deploy ? examineDeployment : examine)(choice, terminal),
        {
          json,
        },
      );
      terminal.print(
        json ? examinationJson(examination) : formatExamination(terminal, examination),
      );
      const worst = worstOf(examination.findings);
      if (worst) terminal.exitWith(codes[worst]);
    });
}

const page = (name: string): string => `docs/reference/doctor.md#${name}`;

function examinationJson({ place, at, findings }: Examination): string {
  const report = {
    place,
    at,
    worst: worstOf(findings),
    findings: findings.map((found) => ({ ...found, page: page(found.name) })),
  };
  return JSON.stringify(report, undefined, 2);
}

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
  return `${counts.flat().join(", ")}. docs/reference/doctor.md explains each.`;
}
