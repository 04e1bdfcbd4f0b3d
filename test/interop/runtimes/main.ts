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
import { installRuntimes, type Runtime } from "./installed.ts";
import { playRuntime, type Stage } from "./scenes.ts";

/** `rampart` from the packed archive, under runtimes other than Node. */
async function play(folder: string): Promise<Outcome[]> {
  const { folder: installed } = await installPackage(folder);
  const runtimes = await installRuntimes(join(folder, "runtimes"), installed);
  const software = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
  if ("missing" in software) return runtimes.map((each) => outcomeOf(each, software.missing));
  const bucket = await startGateway(software.program, folder);
  const scratch = scratchIn(await lastingFolder());
  const mesh = await startMesh(folder);
  try {
    const outcomes: Outcome[] = [];
    for (const runtime of runtimes) {
      const first = await tryOne(runtime, { bucket, mesh, scratch });
      outcomes.push(
        hasStalled(first) ? await tryOne(runtime, { bucket, mesh, scratch }, "second") : first,
      );
    }
    return outcomes;
  } finally {
    await mesh.end();
    await bucket.end();
  }
}

/**
 * Whether Deno's serve stopped to answer, and nothing else went wrong: once in six runs so far, and nobody knows why.
 * The runtime is then played once more;
 * docs/tutorials/deno-and-bun.md says so.
 */
const hasStalled = ({ server, faults }: Outcome): boolean =>
  server.startsWith("deno") &&
  faults.length > 0 &&
  faults.every((fault) => /SIGTERM ends both|fetch failed/.test(fault));

async function tryOne(
  runtime: Runtime,
  means: Pick<Stage, "bucket" | "mesh" | "scratch">,
  turn = "first",
): Promise<Outcome> {
  const own = join(folder, `${runtime.name}-${turn}`);
  await mkdir(own);
  const passphrase = join(own, "passphrase");
  await writeFile(passphrase, randomBytes(24).toString("base64"), { mode: 0o600 });
  const tally = createTally((line) => console.log(`runtimes: ${runtime.name}: ${line}`));
  await playRuntime({ ...means, runtime, folder: own, kek: randomKek(), tally });
  return { ...outcomeOf(runtime), passed: tally.passed(), faults: tally.faults };
}

const outcomeOf = ({ name, version }: Runtime, missing?: string): Outcome => ({
  client: "serve, gateway, verbs",
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
