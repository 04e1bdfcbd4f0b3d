import { parseArgs } from "node:util";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { meshes, type StormCase, serverNames } from "./row.ts";
import { scenarios } from "./scenario.ts";

/** What one command simulates. */
export interface StormOptions {
  readonly cases: readonly StormCase[];
  readonly seed: number;
  readonly write: boolean;
  readonly help: boolean;
}

const maximumWorkloads = 10_000_000;

export const usage = `npm run simulate -- storm [options]

Simulates how a mesh asks for certificates after an event, in virtual time.

  --workloads <N,…>     sizes of the mesh (100000,1000000)
  --scenario <text>     only scenarios whose name contains it
  --mesh <name>         only this mesh: ${Object.keys(meshes).join(", ")}
  --server <name>       only this server: ${serverNames.join(", ")}
  --seed <N>            of the pseudo-random numbers (1)
  --write               writes test/simulation/storm/figures.md and its pictures: every mesh of 100,000
                        workloads, and the mixed one of 1,000,000 at the Worker
`;

/** Parses the arguments after \`storm\`. @throws OperatorError for a wrong one. */
export function parseStormOptions(args: readonly string[]): StormOptions {
  const text = { type: "string" } as const;
  const values = parseKnown(() =>
    parseArgs({
      args: [...args],
      options: {
        workloads: text,
        seed: { type: "string", default: "1" },
        scenario: text,
        mesh: text,
        server: text,
        write: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }),
  ).values;
  const sizes = (values.workloads ?? "100000,1000000")
    .split(",")
    .map((size) => wholeNumber("--workloads", size));
  if (sizes.some((size) => size > maximumWorkloads)) {
    throw new OperatorError(`--workloads: at most ${maximumWorkloads}`);
  }
  const selected = {
    scenarios: scenarios.filter(({ name }) => name.includes(values.scenario ?? "")),
    meshes: Object.keys(meshes).filter((name) => name === (values.mesh ?? name)),
    servers: serverNames.filter((name) => name === (values.server ?? name)),
  };
  for (const [kind, found] of Object.entries(selected)) {
    if (found.length === 0) throw new OperatorError(`there are no such ${kind}; see --help`);
  }
  if (values.write && (values.workloads ?? values.scenario ?? values.mesh ?? values.server)) {
    throw new OperatorError("--write writes all rows, so it goes with no selection");
  }
  return {
    seed: wholeNumber("--seed", values.seed),
    write: values.write,
    help: values.help,
    cases: selected.scenarios.flatMap((scenario) =>
      selected.meshes.flatMap((mesh) =>
        selected.servers.flatMap((server) =>
          sizes.map((workloads) => ({ scenario, mesh, server, workloads })),
        ),
      ),
    ),
  };
}

function parseKnown<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new OperatorError(error instanceof Error ? error.message : "wrong arguments");
  }
}

function wholeNumber(name: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new OperatorError(`${name}: whole numbers above 0`);
  return Number(text);
}
