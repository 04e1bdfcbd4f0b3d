import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRootFile } from "../../src/host/root-file.ts";
import { temporaryFolder } from "../dev/temporary-folder.ts";

// An empty list of roots is the system's to Node.
test.each(["", "\n", "# no root yet\n"])(
  "a file of roots that says %j is refused",
  async (text) => {
    const file = join(await temporaryFolder(), "roots.pem");
    await writeFile(file, text);
    await expect(readRootFile(file)).rejects.toThrow("holds no certificate");
  },
);

test("a file of roots that is not there is refused, and none is none", async () => {
  await expect(readRootFile("/nowhere/roots.pem")).rejects.toThrow("ENOENT");
  expect(await readRootFile(undefined)).toBeUndefined();
});
