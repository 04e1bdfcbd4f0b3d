import { Command } from "commander";
import { type Finding, type Severity, worstOf } from "../../../ca/checkup/finding.ts";
import { addPlaceOptions } from "../../terminal/options.ts";
import { addLoginOptions } from "../cluster/cluster-logins.ts";
import { type Examination, type ExaminationChoice, examine } from "./examination.ts";

/** The exit codes of a checkup, by its worst finding. A checkup that cannot be done ends with 1. */
export const exitCodes: Readonly<Record<Severity, number>> = { note: 0, warning: 3, error: 4 };

interface DoctorOptions extends ExaminationChoice {
  readonly json?: boolean;
}

/** `rampart doctor`: the checkup of a CA, before a deployment and in a cron job. */
export function doctorCommand(clock: () => Date): Command {
  return addLoginOptions(addPlaceOptions(new Command("doctor")))
    .description(
      "look for faults in the configuration, the store, the issuers and the clusters; changes nothing",
    )
    .option("--offline", "ask neither issuers nor API servers")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      "\nThe exit code is 0 without a warning, 3 with one, 4 with an error, and 1 if the checkup cannot be done.",
    )
    .action(async ({ json, ...choice }: DoctorOptions) => {
      const examination = await examine(choice, clock());
      console.log(json ? examinationJson(examination) : formatExamination(examination));
      const worst = worstOf(examination.findings);
      if (worst) process.exitCode = exitCodes[worst];
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

function formatExamination({ place, findings }: Examination): string {
  const where = place === undefined ? "The store was not looked at." : `Looked at the ${place}.`;
  if (findings.length === 0) return `${where}\nNothing was found: the CA is healthy.`;
  return [where, ...findings.map(formatFinding), summary(findings)].join("\n\n");
}

function formatFinding({ name, severity, what, why, remedy }: Finding): string {
  return [`${severity.toUpperCase()}  ${name}`, what, why, `→ ${remedy}`].join("\n  ");
}

function summary(findings: readonly Finding[]): string {
  const counts = (["error", "warning", "note"] as const).map((severity) => {
    const count = findings.filter((each) => each.severity === severity).length;
    return count === 0 ? [] : [`${count} ${severity}${count === 1 ? "" : "s"}`];
  });
  return `${counts.flat().join(", ")}. docs/reference/doctor.md explains each.`;
}
