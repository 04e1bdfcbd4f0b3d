import assert from "node:assert/strict";
import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { fromDebian } from "../software.ts";
import { serveAndIssue } from "./issuance.ts";
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
  const command = [qemu.program, "-L", prefix, "-E", `LD_LIBRARY_PATH=${search}`, program] as const;
  const played = { command, environment: { PATH: "" } } as const;
  return [
    [
      "npm run executable writes that of the other processor, with the Node of the lock",
      async () => {
        await runWell("npm", ["run", "executable", "--", "arm64"], {
          folder: root,
          timeoutSeconds: 300,
        });
        const [emulator, ...words] = command;
        assert.match(await runWell(emulator, [...words, "--version"]), /^\d+\.\d+\.\d+ /);
      },
    ],
    ["serves, and issues a first certificate", () => serveAndIssue(join(folder, "arm64"), played)],
  ];
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
    [
      "serves from two processes",
      () => serveAndIssue(join(folder, "two"), alone, ["--processes", "2"]),
    ],
    [
      "prints its unit for systemd",
      async () => {
        const { stdout } = await run(program, ["serve", "--unit"], { folder });
        assert.equal(stdout, await readFile("deploy/rampart-serve.service", "utf8"));
      },
    ],
    [
      "refuses a configuration that is not there, in a sentence",
      async () => {
        const { stderr, exitCode } = await run(program, ["serve", "-c", "nowhere.toml"], {
          folder,
        });
        assert.equal(exitCode, 1);
        assert.match(stderr, /^rampart: .*nowhere\.toml/);
        assert.doesNotMatch(stderr, /\n {4}at /);
      },
    ],
  ];
}
