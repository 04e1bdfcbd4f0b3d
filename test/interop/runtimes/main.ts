import { randomBytes } from "node:crypto";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomKek } from "../../testkit/configuration.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { createTally } from "../native-grpc/play.ts";
import { scratchIn } from "../native-grpc/scratch.ts";
import { type Outcome, report } from "../outcomes.ts";
import { installPackage } from "../package/installation.ts";
import { startGateway } from "../s3/gateway.ts";
import { fromGoProxy } from "../software.ts";
import { playClient } from "./client.ts";
import { installRuntimes, type Runtime } from "./installed.ts";
import { type Means, playRuntime } from "./scenes.ts";
import { typeTutorial } from "./tutorial.ts";

/** `rampart` from the packed archive, under Deno, Bun, and the oldest Node. */
async function play(folder: string): Promise<Outcome[]> {
  const { folder: installed, archive } = await installPackage(folder);
  const runtimes = await installRuntimes(join(folder, "runtimes"), installed);
  const software = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
  if ("missing" in software) return runtimes.map((each) => outcomeOf(each, software.missing));
  const bucket = await startGateway(software.program, folder);
  const scratch = scratchIn(await lastingFolder());
  const mesh = await startMesh(folder);
  try {
    const outcomes: Outcome[] = [];
    for (const runtime of runtimes)
      outcomes.push(await playOne(runtime, { archive, installed }, { bucket, mesh, scratch }));
    return outcomes;
  } finally {
    await mesh.end();
    await bucket.end();
  }
}

async function playOne(
  runtime: Runtime,
  { archive, installed }: { readonly archive: string; readonly installed: string },
  means: Pick<Means, "bucket" | "mesh" | "scratch">,
): Promise<Outcome> {
  const own = join(folder, runtime.name);
  await mkdir(own);
  const passphrase = join(own, "passphrase");
  await writeFile(passphrase, randomBytes(24).toString("base64"), { mode: 0o600 });
  const kek = randomKek();
  const tallies = [...(await playRuntime({ ...means, runtime, folder: own, passphrase, kek }))];
  tallies.push(await playClient(runtime, installed));
  if (runtime.name !== "node") {
    const typed = createTally((line) => console.log(`runtimes: ${runtime.name}: ${line}`));
    const tutorial = typeTutorial(runtime, archive, means.mesh, join(own, "tutorial"));
    await typed.show("the tutorial, as it is written", tutorial);
    tallies.push(typed);
  }
  const passed = tallies.reduce((sum, tally) => sum + tally.passed(), 0);
  return { ...outcomeOf(runtime), passed, faults: tallies.flatMap(({ faults }) => faults) };
}

const outcomeOf = ({ name, version }: Runtime, missing?: string): Outcome => ({
  client: "serve, gateway, verbs, client",
  server: `${name} ${version}`,
  passed: 0,
  faults: [],
  ...(missing !== undefined && { missing }),
});

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const folder = await lastingFolder();
await chmod(folder, 0o755);
report(await play(folder));
process.exit();
