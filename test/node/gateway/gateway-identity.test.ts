import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tokenInFile } from "../../../src/node/gateway/upstream.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

async function credentialsWith(content: string) {
  const file = join(await temporaryFolder(), "token");
  await writeFile(file, content);
  return tokenInFile(file, "prod-1");
}

test("a gateway shows the token in its file, and its cluster", async () => {
  const credentials = await credentialsWith("a.b.c\n");
  expect(await credentials()).toEqual({ authorization: "Bearer a.b.c", clusterid: "prod-1" });
});

test.each([
  ["nothing", "\n"],
  ["two lines", "a.b.c\na.b.c\n"],
  ["a gigantic token", "a".repeat(20_000)],
])("a gateway shows no token where the file holds %s", async (_, content) => {
  const credentials = await credentialsWith(content);
  await expect(credentials()).rejects.toThrow(/token (must hold a bearer token|is not a file)/);
});
