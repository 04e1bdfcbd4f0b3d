import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { callWithClient, protocols } from "../contract/rpc-calls.ts";
import { apiCredentialName, issuerTables } from "../contract/service-under-test.ts";
import { parseLogLine } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { stageWorker } from "./runtime/staged-worker.ts";

type Environment = Readonly<Record<string, unknown>>;

const lines = recordConsoleLines();

const reasonsOf = async (changes: Environment): Promise<unknown> => {
  const response = await stageWorker(changes).get("/readyz");
  return [response.status, ((await response.json()) as { reasons: unknown }).reasons];
};
const reasonsAbout = (...places: readonly string[]) => [
  503,
  places.map((place) => expect.stringContaining(place)),
];

describe("a misconfigured Worker", () => {
  test.each<[string, Environment, string[]]>([
    ["without a KEK", { KEK: undefined }, ["KEK"]],
    ["with an invalid KEK", { KEK: "password" }, ["KEK"]],
    ["without issuers", { ISSUERS: undefined }, ["ISSUERS"]],
    ["with malformed issuers", { ISSUERS: "[{" }, ["ISSUERS"]],
    ["with an issuer over http", { ISSUERS: [{ issuer: "http://a.test" }] }, ["ISSUERS[0].issuer"]],
    ["with a mistyped key", { TRUST_DOMIAN: "x" }, ["TRUST_DOMIAN"]],
    ["without its store", { AUTHORITIES: undefined }, ["AUTHORITIES"]],
    ["with a text for its store", { AUTHORITIES: "kv" }, ["AUTHORITIES"]],
    ["with several faults", { KEK: "x", ISSUERS: "[" }, ["ISSUERS", "KEK"]],
  ])("says at /readyz what is wrong: %s", async (_, changes, places) => {
    expect(await reasonsOf(changes)).toEqual(reasonsAbout(...places));
  });

  test("logs each fault once, not for each request", async () => {
    const { get } = stageWorker({ KEK: "password" });
    for (let i = 0; i < 3; i++) await get("/readyz");
    const faults = lines.filter((line) => line.includes("configuration-fault"));
    expect(faults).toHaveLength(1);
    expect(faults[0]).not.toContain("password");
    expect(parseLogLine(faults[0] ?? "")).toMatchObject({ level: "error" });
  });

  test("answers Unavailable over every protocol", async () => {
    const service = stageWorker({ KEK: undefined });
    for (const protocol of protocols) {
      expect(await callWithClient(protocol, service, { csr: "x" }, {})).toMatchObject({
        code: "Unavailable",
      });
    }
  });

  test("fails a run of the cron", async () => {
    const { cron } = stageWorker({ KEK: undefined });
    await expect(cron()).rejects.toThrow(/KEK/);
  });
});

describe("a configured Worker", () => {
  test("ignores bindings that are not Rampart's", async () => {
    await reasonsOf({ OTHER_KV: env.AUTHORITIES, ASSETS: new Map() });
    expect(lines.filter((line) => line.includes("configuration-fault"))).toEqual([]);
  });

  test("ignores the platform's own version metadata", async () => {
    const metadata = { id: "v1", tag: "", timestamp: "2026-11-21T12:00:00Z" };
    await reasonsOf({ CF_VERSION_METADATA: metadata });
    expect(lines.filter((line) => line.includes("configuration-fault"))).toEqual([]);
  });

  test("founds no authority on another day than INCEPTION_DATE, and fails the run", async () => {
    const { cron } = stageWorker({ INCEPTION_DATE: "2020-01-01" });
    await expect(cron()).rejects.toThrow(/INCEPTION_DATE/);
    expect((await env.AUTHORITIES.list()).keys).toEqual([]);
  });

  test("delivers its roots by a run that fails", async () => {
    const kubernetes = {
      server: "https://away.test",
      credential: apiCredentialName,
      deliver_roots: true,
    };
    const { cron } = stageWorker({ ISSUERS: [{ ...issuerTables.cluster, kubernetes }] });
    await cron();
    await env.AUTHORITIES.put("roots/junk", "junk");
    lines.length = 0;
    await expect(cron()).rejects.toThrow("the rotation met 1 faults");
    expect(lines.map(parseLogLine)).toContainEqual(
      expect.objectContaining({ event: "roots-not-delivered", cluster: "Kubernetes" }),
    );
  });

  test("warns once of a trust domain of one label", async () => {
    const { get } = stageWorker({ TRUST_DOMAIN: "prod" });
    for (let i = 0; i < 3; i++) await get("/healthz");
    expect(lines.filter((line) => line.includes("TRUST_DOMAIN prod is a single"))).toHaveLength(1);
  });
});

test("a Worker without the flag for ML-DSA says so, and signs with its own authorities", async () => {
  const SIGNERS = [
    {
      name: "pq",
      authority_key: "ML-DSA-65",
      callers: [{ issuer: issuerTables.cluster.issuer }],
      inception_date: new Date().toISOString().slice(0, 10),
    },
  ];
  const { cron } = stageWorker({ SIGNERS });
  await expect(cron()).rejects.toThrow();
  expect(lines.join()).toContain("webcrypto_modern_algorithms");
});

test("a Worker says once in each isolate what its platform cannot do", async () => {
  const { get } = stageWorker({});
  for (let i = 0; i < 3; i++) await get("/readyz");
  const limits = lines.filter((line) => line.includes("platform-limits"));
  expect(limits.map((line) => parseLogLine(line))).toEqual([
    expect.objectContaining({ level: "info", detail: expect.stringContaining("no trailers") }),
  ]);
});
