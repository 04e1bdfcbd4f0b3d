import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { orMissing, type Software } from "./software.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, ".interop/prebuilt");

/** A program of another project, built before and compressed by xz. */
export interface PrebuiltProgram {
  readonly name: string;
  /** Of the compressed file, in hexadecimal. A file with another digest never runs. */
  readonly sha256: string;
}

/** istiod of 2026-08-27 (istio/istio eed52ebb66ad). */
export const prebuiltIstiod: PrebuiltProgram = {
  name: "istiod",
  sha256: "bc237b29a2eaac7afa97526d4bf0f36def9c3450b9a79468c843b033fcb5bebf",
};

/** RAMPART_SOFTWARE names the folder of prebuilt programs. By default it is `shared/bin` beside the checkout. */
const { RAMPART_SOFTWARE = join(root, "../shared/bin") } = process.env;

/** Finds a prebuilt program, verifies its digest, and decompresses the very bytes that were verified. */
export function prebuilt({ name, sha256 }: PrebuiltProgram): Promise<Software> {
  return orMissing(async () => {
    const file = join(RAMPART_SOFTWARE, `${name}.xz`);
    if (!existsSync(file))
      throw new Error(`${name}.xz is neither beside the checkout nor in RAMPART_SOFTWARE`);
    const compressed = await readFile(file);
    const digest = createHash("sha256").update(compressed).digest("hex");
    if (digest !== sha256) throw new Error(`${name}.xz has the digest ${digest}, not ${sha256}`);
    await mkdir(folder, { recursive: true });
    const program = join(folder, name);
    await decompress(compressed, `${program}.${process.pid}`);
    await rename(`${program}.${process.pid}`, program);
    return program;
  });
}

async function decompress(compressed: Uint8Array, path: string): Promise<void> {
  const child = spawn("xz", ["-dc"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "close");
  // An xz that stops reading says why by its exit code.
  child.stdin.on("error", () => {});
  child.stdin.end(compressed);
  await pipeline(child.stdout, createWriteStream(path, { mode: 0o755 }));
  const [exitCode] = await ended;
  if (exitCode !== 0) throw new Error(`xz ended with ${exitCode}`);
}
