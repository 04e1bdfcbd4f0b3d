import { randomBytes } from "node:crypto";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomKek } from "../../testkit/configuration.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { createTally } from "../native-grpc/play.ts";
import { createScratch } from "../native-grpc/scratch.ts";
import { type Outcome, played, report } from "../outcomes.ts";
import { installPackage } from "../package/installation.ts";
import { startGateway, versityGateway } from "../s3/gateway.ts";
import { required } from "../software.ts";
import { playClient } from "./client.ts";
import { installRuntimes, type Runtime } from "./installed.ts";
import { type Means, playRuntime } from "./scenes.ts";
import { typeTutorial } from "./tutorial.ts";

/** `rampart` from the packed archive, under Deno, Bun, and the oldest Node. */
async function play(folder: string): Promise<Outcome[]> {
  const { folder: installed, archive } = await installPackage(folder);
  const runtimes = await installRuntimes(join(folder, "runtimes"), installed);
  await using ends = new AsyncDisposableStack();
  const mesh = await startMesh(folder);
  ends.defer(() => mesh.end());
  const bucket = await startGateway(await required(versityGateway()), folder);
  ends.defer(async () => void (await bucket.end()));
  const means = { bucket, mesh, scratch: await createScratch() };
  const outcomes: Outcome[] = [];
  for (const runtime of runtimes) {
    const names = {
      client: "serve, gateway, verbs, client",
      server: `${runtime.name} ${runtime.version}`,
    };
    outcomes.push(await played(names, () => playOne(runtime, { archive, installed }, means)));
  }
  return outcomes;
}

async function playOne(
  runtime: Runtime,
  { archive, installed }: { readonly archive: string; readonly installed: string },
  means: Pick<Means, "bucket" | "mesh" | "scratch">,
): Promise<Pick<Outcome, "passed" | "faults">> {
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
  return { passed, faults: tallies.flatMap(({ faults }) => faults) };
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const folder = await lastingFolder();
await chmod(folder, 0o755);
report(await play(folder));
process.exit();
