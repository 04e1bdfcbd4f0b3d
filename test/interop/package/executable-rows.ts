import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomKek } from "../../testkit/configuration.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { run, runWell, startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { fromDebian } from "../software.ts";
import { type Serving, serveAndIssue } from "./issuance.ts";
import type { Row } from "./npm-rows.ts";

const root = join(import.meta.dirname, "../../..");

/** The libraries that Node takes of a Debian on arm64. */
const libraries = ["libc6", "libgcc-s1", "libstdc++6", "libatomic1"];

/** What somebody does on arm64, on a processor that `qemu-user` plays. */
export async function foreignRows(folder: string): Promise<readonly Row[] | string> {
  const qemu = await fromDebian("qemu-user-static", "usr/bin/qemu-aarch64-static");
  const found = await Promise.all(
    libraries.map((each) => fromDebian(`${each}-arm64-cross`, "usr/aarch64-linux-gnu")),
  );
  if ("missing" in qemu) return qemu.missing;
  const roots = found.flatMap((each) => ("missing" in each ? [] : each.program));
  const [prefix = ""] = roots;
  if (roots.length < found.length) return "Debian has no libraries for arm64";
  const program = join(root, "out/rampart-linux-arm64");
  const search = roots.map((each) => join(each, "lib")).join(":");
  const emulator = [qemu.program, "-L", prefix, "-E", `LD_LIBRARY_PATH=${search}`] as const;
  const command = [...emulator, program] as const;
  const place = join(folder, "arm64");
  const environment = {
    PATH: "",
    KEK: randomKek(),
    RAMPART_PASSPHRASE: "correct horse battery staple",
  };
  const type = (...words: readonly string[]): Promise<string> =>
    runWell(command[0], [...command.slice(1), ...words], { environment, timeoutSeconds: 300 });
  return [
    [
      "npm run executable writes that of the other processor, with the Node of the lock",
      async () => {
        await runWell("npm", ["run", "executable", "--", "arm64"], {
          folder: root,
          timeoutSeconds: 300,
        });
        assert.match(await type("--version"), /^\d+\.\d+\.\d+ /);
      },
    ],
    [
      "serves, and issues a first certificate, to an agent as well",
      () =>
        serveAndIssue(place, { command, environment }, [], (ca) => agentRests(command, place, ca)),
    ],
    [
      "rotates, and is backed up and restored",
      async () => {
        const toml = join(place, "rampart.toml");
        const ofAuthority = (verb: string, ...words: readonly string[]): Promise<string> =>
          type("authority", verb, ...words, "--config", toml);
        assert.match(await ofAuthority("rotate", "--yes"), /published/);
        const backup = join(place, "backup.age");
        await ofAuthority("export", "--out", backup);
        const text = await readFile(toml, "utf8");
        await writeFile(toml, text.replace(/^(STORE_DIRECTORY = ".*)"$/m, '$1-2"'));
        await ofAuthority("restore", backup, "--yes");
        const restored = JSON.parse(await ofAuthority("list", "--json")) as { phase: string }[];
        assert.deepEqual(
          restored.map(({ phase }) => phase),
          ["signing", "published"],
        );
      },
    ],
    [
      "npm ci brings the Node of the processor, which writes the same octets as this one",
      () => npmBringsNode(emulator, join(folder, "arm64-npm")),
    ],
  ];
}

/** The memory options of the agent's unit (docs/reference/limits.md). */
const agentOptions = "--max-semi-space-size=1 --max-old-space-size=64 --jitless";

/** Has a process write its mappings into a file at a signal: under `qemu-user`, those that the guest has made. */
const writesMaps = `
const { readFileSync, writeFileSync } = require("node:fs");
const maps = () => writeFileSync(process.env.MAPS, readFileSync("/proc/self/maps"));
if (require("node:worker_threads").isMainThread) process.on("SIGUSR2", maps);
`;

/** Starts an agent, and says what it takes once it has its certificate, and what of it is not the emulator's. */
async function agentRests(
  [program, ...words]: readonly [string, ...string[]],
  folder: string,
  { url, token }: Serving,
): Promise<void> {
  const file = (name: string): string => join(folder, name);
  await writeFile(file("agent-token"), token);
  await writeFile(file("maps.cjs"), writesMaps);
  const [port = 0] = await freePorts(1);
  const agent = startChild(program, [...words, "agent", "run"], {
    environment: {
      NODE_OPTIONS: `${agentOptions} --require=${file("maps.cjs")}`,
      MAPS: file("maps"),
      CA_ADDR: url,
      POD_NAMESPACE: "shop",
      SERVICE_ACCOUNT: "cart",
      RAMPART_TOKEN_FILE: file("agent-token"),
      RAMPART_SDS_SOCKET: file("sds"),
      RAMPART_STATUS_ADDR: `127.0.0.1:${port}`,
    },
  });
  try {
    // An interpreter within an emulator is slow.
    const seconds = 300;
    const isReady = async (): Promise<boolean> => {
      const response = await fetch(`http://127.0.0.1:${port}/status`).catch(() => undefined);
      const status = (await response?.json()) as { isReady: boolean } | undefined;
      return status?.isReady === true;
    };
    await until("the agent has no certificate", isReady, seconds);
    agent.send("SIGUSR2");
    let maps = "";
    const hasMaps = async (): Promise<boolean> => {
      maps = await readFile(file("maps"), "utf8").catch(() => "");
      return maps.endsWith("\n");
    };
    await until("the agent has not written its mappings", hasMaps, seconds);
    const smaps = await readFile(`/proc/${agent.process.pid}/smaps`, "utf8");
    const [own, whole] = [residentIn(smaps, maps), residentIn(smaps, smaps)];
    assert(own > 0 && own < whole);
    const besides = `${whole} MiB with its emulator`;
    console.log(`package: an agent on arm64, emulated: ${own} MiB of its own, ${besides}`);
  } finally {
    await agent.end();
  }
}

/** The resident MiB of a process in the ranges of these mappings. */
function residentIn(smaps: string, maps: string): number {
  const ranges = (text: string) =>
    [...text.matchAll(/^([0-9a-f]+)-([0-9a-f]+) /gm)].map(([, from, to]) => [
      Number.parseInt(from ?? "", 16),
      Number.parseInt(to ?? "", 16),
    ]);
  const own = ranges(maps);
  const kib = smaps.split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/).map((part) => {
    const [[from = 0, to = 0] = []] = ranges(part);
    const isOwn = own.some(([first = 0, last = 0]) => from < last && first < to);
    return isOwn ? Number(/^Rss:\s+(\d+) kB/m.exec(part)?.[1]) : 0;
  });
  return Math.round(kib.reduce((sum, each) => sum + each, 0) / 1024);
}

/** Installs as on an arm64 machine, and has its Node write an executable for it beside this Node. */
async function npmBringsNode(
  [emulator, ...flags]: readonly [string, ...string[]],
  folder: string,
): Promise<void> {
  await mkdir(join(folder, "dev/node"), { recursive: true });
  for (const name of ["package.json", "package-lock.json", "dev/node/package.json"])
    await copyFile(join(root, name), join(folder, name));
  const how = ["--cpu=arm64", "--os=linux", "--omit=dev", "--omit=peer", "--ignore-scripts"];
  const quiet = ["--prefer-offline", "--no-audit", "--no-fund"];
  await runWell("npm", ["ci", ...how, ...quiet], { folder, timeoutSeconds: 300 });
  const node = join(folder, "node_modules/.bin/node");
  assert.equal(await runWell(emulator, [...flags, node, "--version"]), `${process.version}\n`);
  await writeFile(join(folder, "main.cjs"), "console.log(1);\n");
  const assets = { lock: "package-lock.json" };
  const settings = { main: "main.cjs", output: "program", executable: node, assets };
  await writeFile(join(folder, "sea.json"), JSON.stringify(settings));
  const digests: string[] = [];
  for (const [builder = "", ...words] of [[process.execPath], [emulator, ...flags, node]]) {
    await runWell(builder, [...words, "--build-sea", "sea.json"], { folder, timeoutSeconds: 300 });
    const octets = await readFile(join(folder, "program"));
    digests.push(createHash("sha256").update(octets).digest("hex"));
  }
  assert.equal(new Set(digests).size, 1);
}

/** What somebody does who has the executable, and no Node. */
export function executableRows(folder: string): readonly Row[] {
  const program = join(folder, "rampart");
  const alone = { command: [program], environment: { PATH: "" } } as const;
  return [
    [
      "npm run executable writes one file",
      async () => {
        await runWell("npm", ["run", "executable"], { folder: root, timeoutSeconds: 300 });
        await copyFile(join(root, "out", `rampart-linux-${process.arch}`), program);
      },
    ],
    [
      "says its version, and warns of nothing",
      async () => {
        const { stdout, stderr, exitCode } = await run(program, ["--version"], {
          environment: { PATH: "" },
        });
        assert.match(stdout, /^\d+\.\d+\.\d+ \([0-9a-f]{12}\+?\)\n$/);
        assert.deepEqual({ stderr, exitCode }, { stderr: "", exitCode: 0 });
      },
    ],
    [
      "serves without a PATH, and issues a certificate",
      () => serveAndIssue(join(folder, "alone"), alone),
    ],
  ];
}
