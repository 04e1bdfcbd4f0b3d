import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { runRampart } from "../../../testkit/programs/rampart-process.ts";
import type { AgentVariables } from "../processes/agent-process.ts";

/** The parts of an Envoy beside its agent. */
export interface LoneEnvoyOptions {
  readonly envoy: string;
  readonly folder: string;
  /** The environment of the agent, of which `rampart agent bootstrap --xds` makes the bootstrap. */
  readonly variables: AgentVariables;
}

/** Starts an Envoy that its agent does not supervise, so that a test can stop and kill it. */
export async function startLoneEnvoy({
  envoy,
  folder,
  variables,
}: LoneEnvoyOptions): Promise<Child> {
  const file = join(folder, "envoy.json");
  await writeFile(
    file,
    await runRampart(["agent", "bootstrap", "--xds"], { environment: variables }),
  );
  const values = ["-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning"];
  return startChild(envoy, values, { logFile: join(folder, "envoy.log") });
}
