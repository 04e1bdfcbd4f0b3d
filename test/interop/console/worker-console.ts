import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parse } from "smol-toml";
import type { Unstable_RawConfig } from "wrangler";
import { writeConsoleAssets } from "../../../dev/console-assets.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** The Worker in workerd, with its console and the assets that `wrangler.toml` describes. */
export async function startWorkerConsole(
  token: string,
): Promise<{ readonly url: string; readonly end: () => Promise<void> }> {
  const folder = await lastingFolder();
  await writeConsoleAssets(join(folder, "console"));
  const commented =
    /^# (\[assets\]|directory = .*|binding = "CONSOLE_ASSETS"|run_worker_first = true)$/gm;
  const text = await readFile(resolve("wrangler.toml"), "utf8");
  const { assets } = parse(text.replace(commented, "$1")) as Unstable_RawConfig;
  const vars = {
    ISSUERS: [{ issuer: "https://cluster.test" }],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
  };
  const secrets = { KEK: randomKek(), CONSOLE_TOKENS: token };
  const harness = await createEdgeWorker({
    main: "src/worker/main-with-console.ts",
    assets: { ...assets, directory: join(folder, "console") },
    vars: { ...vars, ...secrets },
  });
  const end = async (): Promise<void> => {
    await harness.close();
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
