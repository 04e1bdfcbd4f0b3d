import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { wholeNumber } from "../testkit/programs/options.ts";
import { isTargetName, type TargetName, targetNames } from "./targets/targets.ts";

/** The options of a campaign. */
export interface Options {
  readonly seed: number;
  /** Cases of all targets together. */
  readonly count: number;
  readonly targets: readonly TargetName[];
  /** The time after which no new job begins. */
  readonly seconds: number;
  /** The one case to show; `undefined` for a campaign. */
  readonly caseNumber: number | undefined;
}

/** Describes every option. */
export const usage = `npm run fuzz -- [options]

  --count N      cases of all targets together (10000000)
  --target NAME  one target, or several times: ${targetNames.join(", ")}
  --seed N       decides every case; 0x in front of hexadecimal (random)
  --case K       shows this one case of one target
  --seconds S    begins no new work after this time`;

const defaultCount = 10_000_000;

/** @throws Error for an unknown option or target, or a value that is no number. */
export function parseOptions(words: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...words],
    options: {
      count: { type: "string" },
      target: { type: "string", multiple: true },
      seed: { type: "string" },
      case: { type: "string" },
      seconds: { type: "string" },
    },
  });
  const caseNumber = values.case === undefined ? undefined : wholeNumber("--case", values.case);
  const chosen = values.target?.map(requireTarget) ?? targetNames;
  if (caseNumber !== undefined && chosen.length !== 1) throw new Error("--case needs one --target");
  return {
    seed: wholeNumber("--seed", values.seed ?? String(randomInt(2 ** 32))),
    count: wholeNumber("--count", values.count ?? String(defaultCount)),
    targets: chosen,
    seconds:
      values.seconds === undefined
        ? Number.POSITIVE_INFINITY
        : wholeNumber("--seconds", values.seconds),
    caseNumber,
  };
}

function requireTarget(name: string): TargetName {
  if (isTargetName(name)) return name;
  throw new Error(`no target ${name}; there are ${targetNames.join(", ")}`);
}
