import { readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { issuedCertificatesIn } from "../../../src/node/log/issued-certificates.ts";
import { describeIssued } from "../../contract/issued-certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

async function inFiles() {
  const folder = await temporaryFolder();
  const issued = join(folder, "issued");
  const writtenAt = new Map<string, number>();
  return {
    open: (maximum?: number) => issuedCertificatesIn(folder, maximum),
    names: async () => {
      const entries = await readdir(issued, { recursive: true, withFileTypes: true });
      const files = entries.filter((each) => each.isFile());
      return files.map(({ parentPath, name }) => join(parentPath, name).slice(issued.length + 1));
    },
    at: async (second: number, written?: string) => {
      if (written !== undefined) writtenAt.set(written, second);
      // The clock of files is that of the machine, so they grow older instead.
      for (const [name, at] of writtenAt) {
        const time = Date.now() / 1000 - (second - at);
        await utimes(join(issued, name), time, time).catch(() => writtenAt.delete(name));
      }
    },
  };
}

describeIssued(inFiles);

test("what a killed process left in the folder is removed with the certificates of its age", async () => {
  const folder = await temporaryFolder();
  await issuedCertificatesIn(folder).create("a/1", new Uint8Array(1));
  const left = join(folder, "issued/a/.5.left-by-a-killed-process");
  await writeFile(left, "");
  await utimes(left, 0, 0);
  await issuedCertificatesIn(folder).create("a/2", new Uint8Array(1));
  expect((await readdir(join(folder, "issued/a"))).toSorted()).toEqual(["1", "2"]);
});
