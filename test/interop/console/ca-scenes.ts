import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { parse } from "smol-toml";
import type { Unstable_RawConfig } from "wrangler";
import { writeConsoleAssets } from "../../../dev/console-assets.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { openPage } from "./chromium.ts";
import { axeFindings, expectEqual, type Scene } from "./page-scenes.ts";

const token = "operators-token-0123456789-abcdefgh";
const httpCredentials = { username: "operator", password: token };
const { issuer } = issuerTables.cluster;

async function startCa(values: Readonly<Record<string, unknown>>) {
  const key = await createTokenKey("ES256", "k1");
  const ca = await serveCa({
    ISSUERS: [{ issuer, cluster: "prod", jwks: jwksOf(key) }],
    ...values,
  });
  const { csrPem: csr } = await createWorkload();
  return {
    ca,
    url: `http://127.0.0.1:${ca.monitoringPort}/`,
    issue: async (account: string): Promise<void> => {
      const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
      const bearer = await mintAccountToken(key, issuer, account, new Date());
      const outcome = await client.createCertificate(
        { csr },
        { authorization: `Bearer ${bearer}` },
      );
      client.close();
      if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
    },
  };
}

const serve = (html: string) =>
  listenOnLoopback(
    createServer((_, response) => {
      response.writeHead(200, { "content-type": "text/html" }).end(html);
    }),
  );

export const caScenes: Readonly<Record<string, Scene>> = {
  "rampart serve: a certificate is counted and logged while the page is open": async (browser) => {
    const values = {
      CONSOLE_TOKENS: token,
      LOG_ORIGIN: "log.example.com/2026",
      LOG_INTERVAL: "1s",
    };
    const { ca, url, issue } = await startCa(values);
    try {
      const { page, faults } = await openPage(browser, url, { httpCredentials });
      await page.getByText("0 issued").first().waitFor();
      await issue("shop:checkout");
      for (let i = 0; i < 60 && (await page.getByText("ns/shop/sa/checkout").count()) === 0; i++) {
        await page.clock.runFor(10_500);
        await page.waitForTimeout(500);
      }
      await page.getByText("1 issued").first().waitFor();
      await page.getByText("ns/shop/sa/checkout").first().waitFor();
      expectEqual(await axeFindings(page), [], "axe");
      expectEqual(faults, [], "faults");
    } finally {
      await ca.end();
    }
  },
  "another site can neither frame the page nor read the service": async (browser) => {
    const { ca, url } = await startCa({});
    const rpc = `${url}rampart.status.v1.StatusService/GetStatus`;
    const { host, close } = await serve(`<!doctype html><title>elsewhere</title>
      <iframe src="${url}"></iframe><script>
      const said = fetch("${rpc}?encoding=json&connect=v1&message=%7B%7D").then(() => "read", () => "refused");
      const sent = fetch("${rpc}", { method: "POST", mode: "no-cors", body: "{}" }).then(() => "sent", () => "refused");
      Promise.all([said, sent]).then((all) => { document.title = all.join(); });</script>`);
    try {
      const elsewhere = `http://elsewhere.test:${host.split(":").at(-1)}/`;
      const { page } = await openPage(browser, elsewhere);
      await page.waitForFunction("document.title !== 'elsewhere'");
      expectEqual(await page.title(), "refused,sent", "what the site could do");
      const framed = page.frames().find((frame) => frame !== page.mainFrame());
      expectEqual(
        (await framed?.content())?.includes("cluster.local") ?? false,
        false,
        "the frame",
      );
    } finally {
      await close();
      await ca.end();
    }
  },
  "the Worker: its page, its script from the assets, and live": async (browser) => {
    const worker = await startWorkerConsole(token);
    try {
      const { page, faults } = await openPage(browser, worker.url, { httpCredentials });
      await page.getByText("on Workers, as one isolate sees it").waitFor();
      const before = await page.locator("#state time").getAttribute("datetime");
      await page.clock.runFor(10_500);
      await page.locator(`#state time:not([datetime="${before}"])`).waitFor();
      expectEqual(await axeFindings(page), [], "axe");
      expectEqual(faults, [], "faults");
    } finally {
      await worker.end();
    }
  },
};

/** The Worker in workerd, with its console and the assets that `wrangler.toml` describes. */
async function startWorkerConsole(
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
