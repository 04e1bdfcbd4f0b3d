import { reset, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createClient } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";
import { scriptPath } from "../../src/gen/console/script-name.ts";
import { LogState, StatusService } from "../../src/gen/rampart/status/v1/status_pb.ts";
import { LogSearch } from "../../src/status/log-search.ts";
import { createConsole } from "../../src/worker/console.ts";
import { openWorkerLog } from "../../src/worker/log/worker-log.ts";
import { logOrigin, readerToken } from "../contract/log/log-values.ts";
import { connectBinary } from "../contract/rpc-calls.ts";
import { createTokenKey, jwksOf, mintToken, type TokenKey } from "../testkit/callers/tokens.ts";
import { issuerWithKeys } from "../testkit/configuration.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { registry } from "./runtime/internet.ts";
import { logValues } from "./runtime/log-values.ts";
import { stageWorker } from "./runtime/staged-worker.ts";

const token = "operators-token-0123456789-abcdefgh";
const operator = { authorization: `Basic ${btoa(`me:${token}`)}` };

const lines = recordConsoleLines();

async function start(changes: Readonly<Record<string, unknown>> = {}) {
  await reset();
  const worker = stageWorker(changes, {
    clock: () => new Date(),
    openLog: openWorkerLog,
    addConsole: createConsole(LogSearch.in),
  });
  await worker.cron();
  const get = (path: string, headers: HeadersInit = {}) => worker.get(path, { headers });
  return { get, client: createClient(StatusService, connectBinary.transport(worker)) };
}

test("a Worker whose main module lacks the console warns of it, says how to get it, and serves", async () => {
  await reset();
  const worker = stageWorker({ CONSOLE_TOKENS: token });
  await worker.cron();
  const get = (path: string) => worker.get(path, { headers: operator });
  const response = await get("/");
  expect(response.status).toBe(404);
  expect(await response.text()).toContain("main-with-console.ts");
  expect((await get("/console/authorities")).status).toBe(404);
  expect((await get("/bundle.pem")).status).not.toBe(404);
  expect(lines.join()).toContain("main-with-console.ts");
});

describe("a Worker without an operator", () => {
  test("says that its console is off, and how to turn it on", async () => {
    const { get, client } = await start();
    const response = await get("/", operator);
    expect(response.status).toBe(404);
    expect(await response.text()).toMatch(/^The console is off: [^\n]+\n$/);
    expect((await get(scriptPath)).status).toBe(404);
    await expect(client.getStatus({})).rejects.toThrow();
  });
});

describe("a Worker with a token", () => {
  test("shows who signs to whoever has the token", async () => {
    const { get, client } = await start({ CONSOLE_TOKENS: token });
    const response = await get("/", operator);
    expect(response.status).toBe(200);
    expect(await response.text()).toContain("cluster.local");
    const status = await client.getStatus({}, { headers: operator });
    expect(status).toMatchObject({ ready: true, log: LogState.OFF });
    expect(status.signers[0]?.authorities[0]?.signs).toBe(true);
    expect(status.issuance?.scope).toContain("not counted here");
  });

  test("shows what a checkup finds in its configuration, and where rampart doctor looks further", async () => {
    const healthy = await start({
      CONSOLE_TOKENS: token,
      ISSUERS: [issuerWithKeys],
    });
    const { checkup } = await healthy.client.getStatus({}, { headers: operator });
    expect(checkup?.findings).toEqual([]);
    const ISSUERS = [{ ...issuerWithKeys, issuer: "https://oidc.example.com" }];
    const { get, client } = await start({ CONSOLE_TOKENS: token, ISSUERS });
    const status = await client.getStatus({}, { headers: operator });
    expect(status.checkup?.findings.map(({ name }) => name)).toEqual(["configuration-example"]);
    const html = await (await get("/", operator)).text();
    expect(html).toContain("ISSUERS has the example issuer https://oidc.example.com.");
    expect(html).toContain("<code>rampart doctor</code> looks further");
  });

  test("shows commands for the deployed store, and under wrangler dev for the local one", async () => {
    const { get } = await start({ CONSOLE_TOKENS: token });
    await env.AUTHORITIES.put("taints/junk", "junk");
    for (const [from, end] of [
      ["https://ca.test", " --remote"],
      ["http://localhost:8787", ""],
    ] as const) {
      const html = await (await get(`${from}/`, operator)).text();
      const commands = html.match(/(?<=<code>)rampart authority [^<]*/g) ?? [];
      expect(commands).toEqual([`rampart authority restore rampart-backup.age${end}`]);
    }
  });

  test.each([{}, { authorization: "Bearer wrong" }, { "cf-access-jwt-assertion": "a.b.c" }])(
    "asks everybody else for it: %j",
    async (headers: Readonly<Record<string, string>>) => {
      const { get, client } = await start({ CONSOLE_TOKENS: token });
      const response = await get("/", headers);
      expect(response.status).toBe(401);
      expect(response.headers.get("cache-control")).toBe("no-store");
      await expect(client.getStatus({}, { headers })).rejects.toThrow("authentication");
    },
  );

  test("has live parts only where their script was deployed", async () => {
    const CONSOLE_ASSETS = {
      fetch: async (url: string) => new Response(`script of ${new URL(url).pathname}`),
    };
    const { get } = await start({ CONSOLE_TOKENS: token, CONSOLE_ASSETS });
    expect(await (await get("/", operator)).text()).toContain(`src="${scriptPath}"`);
    const script = await get(scriptPath, operator);
    expect(script.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(await script.text()).toBe(`script of ${scriptPath}`);
    expect((await get(scriptPath)).status).toBe(401);
    const without = await start({ CONSOLE_TOKENS: token });
    expect(await (await without.get("/", operator)).text()).not.toContain("<script");
  });
});

/** A binding of Cloudflare's Secrets Store. */
const stored = (secret: string) => ({ get: async () => secret });

test("a Worker takes the tokens of its operators and readers from the Secrets Store", async () => {
  const tokens = { CONSOLE_TOKENS: stored(token), LOG_READERS: stored(readerToken) };
  const { get } = await start({ ...logValues, ...tokens });
  const entries = "/log/0/tile/entries/000.p/1";
  expect((await get("/", operator)).status).toBe(200);
  expect((await get("/")).status).toBe(401);
  // Nothing is published yet, which a reader alone is told.
  expect((await get(entries, { authorization: `Bearer ${readerToken}` })).status).toBe(404);
  expect((await get(entries, { authorization: `Bearer ${token}` })).status).toBe(401);
});

describe("a Worker with a log", () => {
  test("shows its entries, and counts from them", async () => {
    const { get, client } = await start({ ...logValues, CONSOLE_TOKENS: token });
    await runDurableObjectAlarm(env.LOG_SHARD.getByName(`${logOrigin}/0`));
    const { log, issuance } = await client.getStatus({}, { headers: operator });
    expect(log).toBe(LogState.READABLE);
    expect(issuance?.scope).toContain("issuance log");
    const { total } = await client.searchLog({}, { headers: operator });
    expect(typeof total).toBe("bigint");
    expect(await (await get("/?q=nobody", operator)).text()).toContain("No entry matches.");
  });
});

describe("a Worker behind Cloudflare Access", () => {
  const team = "https://team.cloudflareaccess.test";
  const CONSOLE_ACCESS = { team, audience: "a".repeat(64) };
  let key: TokenKey;

  beforeAll(async () => {
    key = await createTokenKey("RS256", "a1");
  });

  const tokenFor = (audience: string): Promise<string> => {
    const seconds = Math.floor(Date.now() / 1000);
    return mintToken(key, {
      iss: team,
      aud: [audience],
      exp: seconds + 600,
      iat: seconds,
      type: "app",
    });
  };

  async function startWithTeam() {
    const body = JSON.stringify(jwksOf(key));
    await fetch(`${registry}${new URL(team).host}`, { method: "PUT", body });
    return start({ CONSOLE_ACCESS });
  }

  test("lets in whom Access has let in, by the keys that the team publishes", async () => {
    const { get } = await startWithTeam();
    const headers = { "cf-access-jwt-assertion": await tokenFor(CONSOLE_ACCESS.audience) };
    expect((await get("/", headers)).status).toBe(200);
  });
});
