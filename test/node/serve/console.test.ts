import { request } from "node:http";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { script } from "../../../src/gen/console/script.ts";
import { scriptPath } from "../../../src/gen/console/script-name.ts";
import { LogState, StatusService } from "../../../src/gen/rampart/status/v1/status_pb.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";

const token = "operators-token-0123456789-abcdefgh";
const { issuer } = issuerTables.cluster;
let key: TokenKey;

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
});

const clientOf = ({ monitoringPort }: ServedCa, protocol: "connect" | "grpc" = "connect") => {
  const baseUrl = `http://127.0.0.1:${monitoringPort}`;
  const transport =
    protocol === "grpc"
      ? createGrpcTransport({ baseUrl })
      : createConnectTransport({ baseUrl, httpVersion: "1.1" });
  return createClient(StatusService, transport);
};

/** Asks under a name, as a browser does that a stranger's name has led here. */
const statusUnder = (port: number, host: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const options = { port, host: "127.0.0.1", path: "/", headers: { host } };
    request(options, (response) => resolve(response.resume().statusCode))
      .once("error", reject)
      .end();
  });

describe("the console of serve without credentials", () => {
  let ca: ServedCa;
  let url: string;

  beforeAll(async () => {
    ca = await serveCa({
      PLAINTEXT_LISTEN: "127.0.0.1:0",
      ISSUERS: [{ issuer, cluster: "prod", jwks: jwksOf(key) }],
      LOG_ORIGIN: "log.example.com/2026",
    });
    url = `http://127.0.0.1:${ca.monitoringPort}`;
  });

  afterAll(() => ca.end());

  test("is on the monitoring port, with its script", async () => {
    const page = await fetch(url);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(await page.text()).toContain(`src="${scriptPath}"`);
    expect(await (await fetch(`${url}${scriptPath}`)).text()).toBe(script);
  });

  test("is on no port for callers", async () => {
    const callers = `http://127.0.0.1:${ca.server.plaintextAddress?.port}`;
    for (const path of ["/", scriptPath])
      expect((await fetch(`${callers}${path}`)).status).toBe(404);
    const transport = createConnectTransport({ baseUrl: callers, httpVersion: "1.1" });
    await expect(createClient(StatusService, transport).getStatus({})).rejects.toThrow();
  });

  test("answers under an address, and not under a name", async () => {
    expect(await statusUnder(ca.monitoringPort, "127.0.0.1:15014")).toBe(200);
    expect(await statusUnder(ca.monitoringPort, "attacker.example")).toBe(403);
  });

  test("shows no entry of the log", async () => {
    expect(await clientOf(ca).getStatus({})).toMatchObject({ log: LogState.CLOSED });
    await expect(clientOf(ca).searchLog({})).rejects.toThrow("no entry of a log may be read here");
    expect(await (await fetch(url)).text()).not.toContain("<form");
  });
});

describe("the console of serve with a token", () => {
  let ca: ServedCa;
  const headers = { authorization: `Bearer ${token}` };

  beforeAll(async () => {
    ca = await serveCa({
      ISSUERS: [{ issuer, jwks: jwksOf(key) }],
      LOG_ORIGIN: "log.example.com/2026",
      CONSOLE_TOKENS: token,
    });
  });

  afterAll(() => ca.end());

  test("answers whoever shows it, under any name", async () => {
    const url = `http://localhost:${ca.monitoringPort}`;
    expect((await fetch(url, { headers })).status).toBe(200);
    expect(await clientOf(ca).getStatus({}, { headers })).toMatchObject({ log: LogState.READABLE });
    const { entries } = await clientOf(ca).searchLog({ query: servedName }, { headers });
    expect(entries.every(({ name }) => name.includes(servedName))).toBe(true);
  });

  test("answers nobody else, also under an address, but with probes and metrics", async () => {
    for (const path of ["/healthz", "/readyz", "/metrics"])
      expect((await ca.monitored(path)).status, path).toBe(200);
    expect((await fetch(`http://127.0.0.1:${ca.monitoringPort}`)).status).toBe(401);
    await expect(clientOf(ca).getStatus({})).rejects.toThrow("authentication");
    await expect(clientOf(ca, "grpc").getStatus({})).rejects.toThrow("authentication");
  });
});
