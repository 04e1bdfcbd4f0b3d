import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { proveConsistency } from "../../../src/tlog/proof.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { GrownTree, hex } from "../../testkit/tlog/trees.ts";
import { type Outcome, playAll, playRows, reportOutcomes } from "../outcome-table.ts";
import { fromGoModule, fromGoProxy, python, required, type Software } from "../software.ts";
import { collectorProgram } from "./collector.ts";
import { exportToCollector, judgeOcsf } from "./exported.ts";
import { proofOf, type WrittenLog, writeLog } from "./written-log.ts";

const sizes = [1, 7, 256, 257, 70_000];
const folder = await lastingFolder();
const newFolder = (): Promise<string> => lastingFolder();

/** Its exit code is 0 whatever it finds, and damage may make it hang. */
async function fsckSays(program: string, log: WrittenLog): Promise<string> {
  const key = join(folder, "vkey");
  await writeFile(key, log.verifierKey);
  const place = `--storage_url=${pathToFileURL(log.folder)}/`;
  const values = [place, `--public_key=${key}`, "--ui=false", "--N=4"];
  const { stdout, stderr } = await run(program, values, { timeoutSeconds: 60 });
  return stdout + stderr;
}

const success = /Successfully fsck'd log with size (\d+)/;

type Scene = (program: string) => Promise<void>;

const fsckScenes: Readonly<Record<string, Scene>> = {
  ...Object.fromEntries(
    sizes.map((size): [string, Scene] => [
      `a log of ${size}`,
      async (program) => {
        const said = await fsckSays(program, await writeLog(await newFolder(), size));
        expectEqual(success.exec(said)?.[1], String(size), said.slice(-300));
      },
    ]),
  ),
  "a changed octet": async (program) => {
    const log = await writeLog(await newFolder(), 300);
    const file = join(log.folder, "tile/entries/000");
    const octets = await readFile(file);
    octets[20] = (octets[20] ?? 0) ^ 1;
    await writeFile(file, octets);
    expectEqual(success.test(await fsckSays(program, log)), false, "fsck found nothing");
  },
};

const exportScenes: Readonly<Record<string, Scene>> = {
  "three shards into a collector, which and whose sender are killed": exportToCollector,
};

const ocsfScenes: Readonly<Record<string, Scene>> = {
  "an authority, certificates, a token and a refusal as events of OCSF": judgeOcsf,
};

const readerScenes: Readonly<Record<string, Scene>> = {
  "roots and consistency proofs of x/mod": async (program) => {
    const asked = [...sizes, 1, 3, 100, 511, 512, 1000, 65_536].toSorted((a, b) => a - b);
    const lines = (await runWell(program, ["roots", ...asked.map(String)])).trimEnd().split("\n");
    const grown = new GrownTree();
    let older = 0;
    for (const line of lines) {
      const [size = "", ...expected] = line.split(" ");
      const { tree, read } = grown.grow(Number(size));
      const proof = older > 0 ? await proveConsistency(older, tree.size, read) : [];
      expectEqual([tree.root, ...proof].map(hex).join(" "), expected.join(" "), `size ${size}`);
      older = tree.size;
    }
  },
  "proofs by formats and merkle": async (program) => {
    for (const size of sizes) {
      const log = await writeLog(await newFolder(), size);
      for (const index of new Set([0, size >> 1, size - 1])) {
        const file = join(folder, "proof");
        await writeFile(file, await proofOf(log.folder, log.checkpoint, size, index));
        const said = await runWell(program, ["proof", log.verifierKey, file]);
        expectEqual(said, `index ${index} of ${size}\n`, "the proof");
      }
    }
  },
  "a witness on formats and merkle, by Rampart's publisher": playGoWitness,
};

async function playGoWitness(program: string): Promise<void> {
  const store = await newFolder();
  // The log makes its own key at its first start, and the witness must know it.
  const { verifierKey } = await writeLog(store, 0);
  const child = spawn(program, ["witness", "witness.go", verifierKey], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [line] = await once(createInterface(child.stdout), "line");
    const [witnessKey = "", url = ""] = String(line).split(" ");
    const policy = `witness go ${witnessKey} ${url}\nquorum go\n`;
    const log = await writeLog(store, 300, policy);
    expectEqual(log.checkpoint.includes("— witness.go "), true, JSON.stringify(log.refused));
  } finally {
    child.kill("SIGKILL");
  }
}

function expectEqual(found: unknown, expected: unknown, what: string): void {
  if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`);
}

const play = (
  client: string,
  software: Promise<Software>,
  scenes: Readonly<Record<string, Scene>>,
  server = "the log of rampart serve",
): Promise<Outcome[]> =>
  playAll({ client, server }, async () =>
    playRows({ client, server }, Object.entries(scenes), await required(software)),
  );

const fsck = fromGoProxy("github.com/transparency-dev/tessera/cmd/fsck@v1.0.4");
const reader = fromGoModule(join(import.meta.dirname, "reader"), "log-reader");
const collector = collectorProgram();
const ocsf = python("ocsf", ["ocsf-json-schema==1.2.0", "jsonschema==4.26.0"]);
reportOutcomes([
  ...(await play("tessera fsck", fsck, fsckScenes)),
  ...(await play("x/mod, merkle and formats", reader, readerScenes)),
  ...(await play(
    "a collector of OpenTelemetry",
    collector,
    exportScenes,
    "rampart log follow --to",
  )),
  ...(await play("ocsf-json-schema", ocsf, ocsfScenes, "rampart log follow --ocsf")),
]);
