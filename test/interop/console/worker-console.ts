import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTestHarness } from "wrangler";
import { writeConsoleAssets } from "../../../dev/console-assets.ts";

const root = join(import.meta.dirname, "../../..");

/** The Worker in workerd, with its console and the assets that `wrangler.toml` describes. */
export async function startWorkerConsole(
  token: string,
): Promise<{ readonly url: string; readonly end: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-console-"));
  await writeConsoleAssets(join(folder, "console"));
  const configPath = join(root, `.wrangler-console-${process.pid}.toml`);
  const commented =
    /^# (\[assets\]|directory = .*|binding = "CONSOLE_ASSETS"|run_worker_first = true)$/gm;
  const settings = (await readFile(join(root, "wrangler.toml"), "utf8"))
    .replace(commented, "$1")
    .replace('"src/worker/main.ts"', '"src/worker/main-with-console.ts"')
    .replace(".wrangler/console", join(folder, "console"));
  await writeFile(configPath, settings);
  const vars = {
    ISSUERS: [{ issuer: "https://cluster.test" }],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
  };
  const secrets = { KEK: `k1:${randomBytes(32).toString("base64")}`, CONSOLE_TOKENS: token };
  const harness = createTestHarness({ workers: [{ configPath, vars, secrets }] });
  const end = async (): Promise<void> => {
    await harness.close();
    await Promise.all([rm(configPath), rm(folder, { recursive: true })]);
  };
  try {
    const { url } = await harness.listen();
    await harness.getWorker().scheduled({ cron: "* * * * *" });
    return { url: url.href, end };
  } catch (error) {
    await end();
    throw error;
  }
}
