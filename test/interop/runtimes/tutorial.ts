import assert from "node:assert/strict";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { stringify } from "smol-toml";
import { blocksOf, isTyped, staysOpen } from "../../pages/shell-blocks.ts";
import type { Mesh } from "../native-grpc/mesh.ts";
import { environmentIn } from "../pages/scenes.ts";
import { openTerminal } from "../pages/terminal.ts";
import type { Runtime } from "./installed.ts";

const page = "docs/tutorials/deno-and-bun.md";

/** Types the tutorial in an empty folder with the archive, and ends with an authority in the list. */
export async function typeTutorial(
  { name, command: [program = ""] }: Runtime,
  archive: string,
  mesh: Mesh,
  folder: string,
): Promise<undefined> {
  await mkdir(folder);
  await copyFile(archive, join(folder, basename(archive)));
  const keys = {
    STORE_DIRECTORY: "store",
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    ISSUERS: [mesh.issuerTable],
  };
  await writeFile(join(folder, "rampart.toml"), stringify(keys));
  const { PATH, ...others } = await environmentIn(folder);
  const terminal = await openTerminal(folder, { ...others, PATH: `${dirname(program)}:${PATH}` });
  try {
    let printed = "";
    for (const { text, mark } of blocksOf(page).filter(isTyped)) {
      // The page names the other runtime behind its commands.
      const own = name === "bun" ? text.replace(/^deno run -A/, "bun") : text;
      printed =
        mark === staysOpen ? await terminal.leaveOpen(own, /"gRPC on /) : await terminal.type(own);
    }
    assert.match(printed, / signing, now /);
  } finally {
    await terminal.end();
  }
}
