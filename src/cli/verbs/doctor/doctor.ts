import { Command } from "commander";
import { type Finding, type Severity, worstOf } from "../../../status/finding.ts";
import { addExitCodes, exitCodes } from "../../terminal/exit-codes.ts";
import { addPlaceOptions } from "../../terminal/options.ts";
import { withProgress } from "../../terminal/progress.ts";
import { styled } from "../../terminal/style.ts";
import { outputWidth } from "../../terminal/table.ts";
import { wrap } from "../../terminal/width.ts";
import { addLoginOptions } from "../cluster/cluster-logins.ts";
import { type Examination, type ExaminationChoice, examine } from "./examination.ts";

/** The exit codes of a checkup, by its worst finding. */
const codes: Readonly<Record<Severity, number>> = {
  note: exitCodes.done,
  warning: exitCodes.attention,
  error: exitCodes.broken,
};

interface DoctorOptions extends ExaminationChoice {
  readonly json?: boolean;
}

/** `rampart doctor`: the checkup of a CA, before a deployment and in a cron job. */
export function doctorCommand(clock: () => Date): Command {
  const doctor = addExitCodes(new Command("doctor"), {
    attention: "The worst finding is a warning.",
    broken: "There is an error among the findings.",
  });
  return addLoginOptions(addPlaceOptions(doctor))
    .description(
      "look for faults in the configuration, the store, the issuers and the clusters; changes nothing",
    )
    .option("--offline", "ask neither issuers nor API servers")
    .option("--json", "print JSON")
    .action(async ({ json, ...choice }: DoctorOptions) => {
      const examination = await withProgress("examining the CA", () => examine(choice, clock()), {
        json,
      });
      console.log(json ? examinationJson(examination) : formatExamination(examination));
      const worst = worstOf(examination.findings);
      if (worst) process.exitCode = codes[worst];
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
  const heading = `${styled(meanings[severity], severity.toUpperCase())}  ${styled("heading", name)}`;
  const lines = [what, why, `→ ${remedy}`].flatMap((line) =>
    wrap(`  ${line}`, outputWidth(), "    "),
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
