import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeWorkerConfiguration } from "../../dev/worker/worker-configuration.ts";
import { script } from "../../src/gen/console/script.ts";
import { scriptPath } from "../../src/gen/console/script-name.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

test("the development Worker has the script with which its console follows the CA", async () => {
  const root = await temporaryFolder();
  await copyFile("wrangler.toml", join(root, "wrangler.toml"));
  const configuration = await readFile(await writeWorkerConfiguration(root), "utf8");
  const { assets } = JSON.parse(configuration);
  expect(assets).toMatchObject({ binding: "CONSOLE_ASSETS", run_worker_first: true });
  expect(await readFile(join(assets.directory, scriptPath), "utf8")).toBe(script);
});
