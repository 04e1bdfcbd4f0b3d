import { OperatorError } from "../../../src/foundation/operator-error.ts";
import { parseStormOptions, type StormOptions, usage } from "./options.ts";
import { loadDefaults } from "./parameters.ts";
import { lineOf, lineTitles } from "./report.ts";
import { simulateCase } from "./row.ts";

/** `npm run simulate -- storm`. @returns The exit status. */
export function runStorm(args: readonly string[]): number {
  try {
    const options = parseStormOptions(args, loadDefaults());
    if (options.help) process.stdout.write(usage);
    else print(options);
    return 0;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 2;
  }
}

function print({ cases, parameters, seed }: StormOptions): void {
  console.log(lineTitles);
  for (const each of cases) console.log(lineOf(simulateCase(each, parameters, seed).row));
}
