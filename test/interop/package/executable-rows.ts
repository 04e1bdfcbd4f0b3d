import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import type { Row } from "../outcome-table.ts";
import { fromDebian, required } from "../software.ts";
import { serveAndIssue } from "./issuance.ts";

const root = join(import.meta.dirname, "../../..");

/** The libraries that Node takes of a Debian on arm64. */
const libraries = ["libc6", "libgcc-s1", "libstdc++6", "libatomic1"];

/** What somebody does on arm64, on a processor that `qemu-user` plays. */
export async function foreignRows(folder: string): Promise<readonly Row[]> {
  const qemu = await required(fromDebian("qemu-user-static", "usr/bin/qemu-aarch64-static"));
  const roots = await Promise.all(
    libraries.map((each) => required(fromDebian(`${each}-arm64-cross`, "usr/aarch64-linux-gnu"))),
  );
  const [prefix = ""] = roots;
  const program = join(root, "out/rampart-linux-arm64");
  const search = roots.map((each) => join(each, "lib")).join(":");
  const emulator = [qemu, "-L", prefix, "-E", `LD_LIBRARY_PATH=${search}`] as const;
  const command = [...emulator, program] as const;
  const environment = { PATH: "" };
  return [
    [
      "npm run executable writes that of the other processor, with the Node of the lock",
      async () => {
        await runWell("npm", ["run", "executable", "--", "arm64"], {
          folder: root,
          timeoutSeconds: 300,
        });
        const [first, ...words] = command;
        assert.match(await runWell(first, [...words, "--version"]), /^\d+\.\d+\.\d+ /);
      },
    ],
    [
      "serves, and issues a first certificate",
      () => serveAndIssue(join(folder, "arm64"), { command, environment }),
    ],
    [
      "npm ci brings the Node of the processor, which writes the same octets as this one",
      () => npmBringsNode(emulator, join(folder, "arm64-npm")),
    ],
  ];
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
