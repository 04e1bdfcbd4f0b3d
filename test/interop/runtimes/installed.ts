import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import { install } from "../package/installation.ts";

/** A runtime from npm other than the Node of the tests, and how it runs the installed program. */
export interface Runtime {
  readonly name: "deno" | "bun" | "node";
  readonly version: string;
  /** The words before the verb. */
  readonly command: readonly string[];
}

/** The Node is the oldest that package.json takes. */
const versions = { deno: "2.9.6", bun: "1.4.5", node: "24.21.0" } as const;

/** @param installed The folder into which npm has installed the archive. */
export async function installRuntimes(
  folder: string,
  installed: string,
): Promise<readonly Runtime[]> {
  await mkdir(folder);
  const allowScripts = { deno: true, bun: true };
  await writeFile(
    join(folder, "package.json"),
    `${JSON.stringify({ private: true, allowScripts })}\n`,
  );
  const node = `node-linux-${process.arch}`;
  const wanted = [`deno@${versions.deno}`, `bun@${versions.bun}`, `${node}@${versions.node}`];
  const { PATH: path = "" } = process.env;
  await install({ path, folder }, ...wanted);
  const program = join(installed, "node_modules/@rampart-ca/rampart/dist/rampart.js");
  const at = (name: Runtime["name"]): string => join(folder, "node_modules/.bin", name);
  const runtimes: readonly Runtime[] = [
    { name: "deno", version: versions.deno, command: [at("deno"), "run", "-A", program] },
    { name: "bun", version: versions.bun, command: [at("bun"), program] },
    { name: "node", version: versions.node, command: [at("node"), program] },
  ];
  // The first start unpacks what npm has fetched.
  for (const { command } of runtimes) await runWell(command[0] ?? "", ["--version"]);
  return runtimes;
}
