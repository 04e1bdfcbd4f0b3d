import { join } from "node:path";
import { build } from "esbuild";
import { startControlledCas } from "../../client/controlled-ca.ts";
import { scenes } from "../../client/scenes.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { createTally, type Tally } from "../native-grpc/play.ts";
import type { Runtime } from "./installed.ts";

/** The program that plays the scenes with the client of the archive, and prints the faults. */
const program = (origin: string): string => `
  import { createClient } from "@rampart-ca/rampart/client";
  import { playScenes } from "./test/client/scenes.ts";
  console.log(JSON.stringify(await playScenes({ createClient, origin: "${origin}" })));
  process.exit();
`;

/** Plays the scenes of the client in a runtime. @param installed The folder into which npm has installed the archive. */
export async function playClient(runtime: Runtime, installed: string): Promise<Tally> {
  const tally = createTally((line) => console.log(`runtimes: ${runtime.name}: client: ${line}`));
  const { origin, close } = await startControlledCas();
  const file = join(installed, `client-${runtime.name}.mjs`);
  try {
    await build({
      stdin: { contents: program(origin), resolveDir: process.cwd() },
      bundle: true,
      format: "esm",
      target: "es2022",
      external: ["@rampart-ca/rampart/client"],
      outfile: file,
    });
    const [command = "", ...words] = [...runtime.command.slice(0, -1), file];
    const faults: string[] = JSON.parse(await runWell(command, words, { timeoutSeconds: 300 }));
    for (const name of Object.keys(scenes)) {
      const fault = faults.find((each) => each.startsWith(`${name}: `));
      await tally.show(name, Promise.resolve(fault));
    }
  } finally {
    await close();
  }
  return tally;
}
