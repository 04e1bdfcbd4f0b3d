import { createHash } from "node:crypto";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, createClient } from "@connectrpc/connect";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import { createConnectTransport } from "@connectrpc/connect-web";
import { describe, expect, test } from "vitest";
import { Console, type ConsoleParts } from "../../src/console/console.ts";
import { OperatorGuard } from "../../src/console/operator-guard.ts";
import { CaError } from "../../src/foundation/errors.ts";
import {
  NextStep_Act as Act,
  Cluster_Delivery as Delivery,
  Distrust_State,
  Issuer_KeyState as KeyState,
  Authority_Kind as Kind,
  LogState,
  Phase,
  Finding_Severity as Severity,
  StatusService,
  Event_What as What,
} from "../../src/gen/rampart/status/v1/status_pb.ts";
import { LogSearchError } from "../../src/status/log-search-error.ts";
import type { CaStatus } from "../../src/status/status.ts";
import { sampleEntries, sampleNow, sampleStatus } from "../testkit/console/sample-status.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

const token = "operators-token-0123456789-abcdefgh";
const operator = { authorization: `Bearer ${token}` };
const origin = "https://ca.test";

function startConsole(changes: Partial<ConsoleParts> = {}) {
  const log = createEventRecorder();
  let reads = 0;
  const console = Console.create({
    status: {
      at: async () => {
        reads++;
        return sampleStatus;
      },
      searchLog: async ({ query }) => {
        if (query === "busy") throw new LogSearchError("busy", "others search");
        return sampleEntries;
      },
    },
    guard: OperatorGuard.create({ tokens: [{ token }], access: undefined }, undefined),
    clock: () => sampleNow,
    log,
    script: {
      path: "/console/0123.js",
      integrity: "sha256-x",
      answer: () => new Response("script"),
    },
    hasTrailers: false,
    ...changes,
  });
  const get = async (
    path: string,
    headers: Readonly<Record<string, string>> = {},
    method = "GET",
  ) => console.answer(new Request(`${origin}${path}`, { headers, method }));
  const handlers = new Map(
    console.handlers.map((handler) => [handler.requestPath, createFetchHandler(handler)]),
  );
  const fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    return (
      handlers.get(new URL(request.url).pathname)?.(request) ?? new Response("", { status: 404 })
    );
  };
  const client = createClient(
    StatusService,
    createConnectTransport({ baseUrl: origin, fetch, useBinaryFormat: true }),
  );
  return { get, client, fetch, log, reads: () => reads };
}

describe("the console", () => {
  test("answers an operator with a page that nothing may keep, frame or add to", async () => {
    const response = await startConsole().get("/", operator);
    expect(response?.status).toBe(200);
    const headers = Object.fromEntries(response?.headers ?? []);
    expect(headers).toMatchObject({
      "cache-control": "no-store",
      "x-frame-options": "DENY",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
    });
    const policy = headers["content-security-policy"] ?? "";
    expect(policy).toMatch(/^default-src 'none'; /);
    expect(policy).not.toMatch(/unsafe|\*|https?:|data:/);
    expect(policy).toContain("frame-ancestors 'none'");
  });

  test("has one style, whose digest is the one that the policy allows", async () => {
    const response = await startConsole().get("/", operator);
    const [, style = ""] = /<style>(.*?)<\/style>/s.exec((await response?.text()) ?? "") ?? [];
    const digest = createHash("sha256").update(style).digest("base64");
    expect(response?.headers.get("content-security-policy")).toContain(
      `style-src 'sha256-${digest}'`,
    );
  });

  test("allows no script where it has none", async () => {
    const response = await startConsole({ script: undefined }).get("/", operator);
    expect(response?.headers.get("content-security-policy")).not.toContain("script-src");
    expect(await response?.text()).not.toContain("<script");
  });

  test("serves its icon and its script, and no other path below its own", async () => {
    const { get } = startConsole();
    expect((await get("/console/icon.svg", operator))?.headers.get("content-type")).toBe(
      "image/svg+xml",
    );
    expect(await (await get("/console/0123.js", operator))?.text()).toBe("script");
    expect((await get("/console/4567.js", operator))?.status).toBe(404);
    expect(await get("/console/../readyz", operator)).toBeUndefined();
    expect(await get("/readyz", operator)).toBeUndefined();
  });

  test("puts a query back into its field, escaped", async () => {
    const response = await startConsole().get("/?q=%22%3E%3Cscript%3E", operator);
    expect(await response?.text()).toContain('value="&quot;&gt;&lt;script&gt;"');
  });

  test("shows the rest of the page where the log cannot be searched", async () => {
    const response = await startConsole().get("/?q=busy", operator);
    expect(response?.status).toBe(200);
    expect(await response?.text()).toContain("others search");
  });

  test.each(["POST", "PUT", "DELETE", "OPTIONS"])("refuses %s", async (method) => {
    expect((await startConsole().get("/", operator, method))?.status).toBe(405);
  });

  test("answers HEAD without a body", async () => {
    const response = await startConsole().get("/", operator, "HEAD");
    expect([response?.status, await response?.text()]).toEqual([200, ""]);
  });
});

describe("who is not let in", () => {
  test.each(["/", "/console/icon.svg", "/console/0123.js", "/console/", "/?q=x"])(
    "is asked for a token at %s, and costs no look at the CA",
    async (path) => {
      const { get, reads, log } = startConsole();
      const response = await get(path);
      expect(response?.status).toBe(401);
      expect(response?.headers.get("www-authenticate")).toMatch(/^Basic realm="Rampart"/);
      expect(await response?.text()).not.toContain("mesh.example.com");
      expect(reads()).toBe(0);
      expect(log.operations).toEqual([]);
    },
  );

  test("leaves a line in the log with a wrong token, and not the token", async () => {
    const { get, log } = startConsole();
    expect((await get("/", { authorization: "Bearer wrong-token-0123456789" }))?.status).toBe(401);
    expect(log.operations).toMatchObject([
      { event: "console-refused", level: "warning", check: "key" },
    ]);
    expect(JSON.stringify(log.operations)).not.toContain("wrong-token");
  });

  test("gets 403 where no browser may ask a person", async () => {
    const guard = OperatorGuard.create({ tokens: [], access: undefined }, undefined);
    const response = await startConsole({ guard }).get("/", operator);
    expect([response?.status, response?.headers.get("www-authenticate")]).toEqual([403, null]);
  });

  test("gets 503 while the credential cannot be verified", async () => {
    const guard = {
      asksForToken: true,
      sentence: "",
      require: async () => {
        throw new CaError(
          { reason: "key-provider-unreachable", issuer: "https://team.test" },
          "away",
        );
      },
    };
    expect((await startConsole({ guard }).get("/"))?.status).toBe(503);
  });

  test("is a page of another site", async () => {
    const { get, reads } = startConsole();
    const headers = { ...operator, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" };
    expect((await get("/", headers))?.status).toBe(403);
    expect(reads()).toBe(0);
  });
});

describe("the status service", () => {
  test("answers an operator what the page shows", async () => {
    const { client } = startConsole();
    const status = await client.getStatus({}, { headers: operator });
    expect(status).toMatchObject({ trustDomain: "mesh.example.com", ready: true });
    const found = await client.searchLog({ query: "shop" }, { headers: operator });
    expect(found.total).toBe(BigInt(sampleEntries.total));
  });

  test("shows when and why a certificate of the log is distrusted, on the page as well", async () => {
    const since = new Date("2026-11-20T08:30:00Z");
    const distrust = { state: "revoked", since, detail: "keyCompromise, <case 117>" } as const;
    const [entry] = sampleEntries.entries;
    const entries = entry ? [{ ...entry, distrust }] : [];
    const searchLog = async () => ({ ...sampleEntries, entries });
    const { client, get } = startConsole({ status: { at: async () => sampleStatus, searchLog } });
    const found = await client.searchLog({ query: "" }, { headers: operator });
    expect(found.entries[0]?.distrust).toMatchObject({
      state: Distrust_State.REVOKED,
      since: timestampFromDate(since),
      detail: distrust.detail,
    });
    const html = await (await get("/", operator))?.text();
    expect(html).toMatch(
      /<span class="badge bad">revoked<\/span> <time datetime="2026-11-20T08:30:00.000Z">/,
    );
    expect(html).toContain("keyCompromise, &lt;case 117&gt;");
  });

  test("has in its messages all that the status says", async () => {
    const taintedAt = new Date("2026-11-20T00:00:00Z");
    const [own] = sampleStatus.signers;
    const status: CaStatus = {
      ...sampleStatus,
      clusters: sampleStatus.clusters.map(({ progress, ...each }) => ({
        ...each,
        ...(progress && { progress: { ...progress, fault: "is away" } }),
      })),
      signers: sampleStatus.signers.map((signer) => ({
        ...signer,
        authorities: signer.authorities.map((each, i) => ({
          ...each,
          isTainted: true,
          taintedAt: i === 0 ? taintedAt : undefined,
        })),
        nextStep: { act: "ask", due: sampleNow },
      })),
    };
    const { client } = startConsole({ status: { at: async () => status, searchLog: undefined } });
    const message = await client.getStatus({}, { headers: operator });
    const [signer] = message.signers;
    expect(signer?.authorities.map(({ phase, kind }) => [phase, kind])).toEqual([
      [Phase.VERIFYING, Kind.AUTHORITY],
      [Phase.SIGNING, Kind.AUTHORITY],
      [Phase.VERIFYING, Kind.ADDITIONAL_ROOT],
      [Phase.PUBLISHED, Kind.AUTHORITY],
    ]);
    expect(signer?.authorities.every(({ tainted }) => tainted)).toBe(true);
    const [first] = own?.authorities ?? [];
    const at = (instant: Date | undefined) => instant && timestampFromDate(instant);
    expect(signer?.authorities[0]).toMatchObject({
      id: first?.id,
      key: "EC-P256",
      tainted: true,
      taintedAt: at(taintedAt),
      publishedFrom: at(first?.schedule.publishedFrom),
      signsFrom: at(first?.schedule.signsFrom),
      retiresAt: at(first?.schedule.retiresAt),
    });
    expect(signer?.events.map(({ what }) => what)).toEqual([
      ...[What.LEAVES_BUNDLE, What.SIGNS, What.STOPS_SIGNING, What.LEAVES_BUNDLE],
    ]);
    expect(signer?.nextStep).toMatchObject({ act: Act.ASK, due: at(sampleNow) });
    expect(message.trustBundle).toMatchObject({ sequence: 1_795_340_000_000n });
    expect(
      message.clusters.map(({ delivery, delivered, fault }) => [delivery, delivered, fault]),
    ).toEqual([
      [Delivery.COMPLETE, 214, "is away"],
      [Delivery.PENDING, 171, "is away"],
      [Delivery.ELSEWHERE, 0, ""],
    ]);
    expect(message.issuers.map(({ keys, failure }) => [keys, failure])).toEqual([
      [KeyState.FETCHED, ""],
      [KeyState.STALE, "answered with status 503"],
      [KeyState.CONFIGURED, ""],
    ]);
    expect(message.issuers[1]?.failedAt).toEqual(at(sampleStatus.issuers[1]?.failure?.at));
    expect(message.issuance?.clusters[2]?.lastDay).toMatchObject({ issued: 9514, refused: 40 });
    expect(message.checkup?.findings).toMatchObject([{ severity: Severity.WARNING }]);
    expect(message.log).toBe(LogState.READABLE);
  });

  test("may be asked with GET, and says that nothing may keep the answer", async () => {
    const path =
      "/rampart.status.v1.StatusService/GetStatus?encoding=json&connect=v1&message=%7B%7D";
    const response = await startConsole().fetch(`${origin}${path}`, { headers: operator });
    expect([response.status, response.headers.get("cache-control")]).toEqual([200, "no-store"]);
  });

  test.each<[string, Readonly<Record<string, string>>, Code]>([
    ["without a credential", {}, Code.Unauthenticated],
    ["with a wrong token", { authorization: "Bearer x" }, Code.Unauthenticated],
    ["of another site", { ...operator, "sec-fetch-site": "cross-site" }, Code.PermissionDenied],
  ])("refuses a call %s, and costs no look at the CA", async (_, headers, code) => {
    const { client, reads } = startConsole();
    for (const call of [client.getStatus({}, { headers }), client.searchLog({}, { headers })]) {
      await expect(call).rejects.toMatchObject({ code });
    }
    expect(reads()).toBe(0);
  });

  test("refuses a search where no entry may be read", async () => {
    const status = { at: async () => sampleStatus, searchLog: undefined };
    const { client } = startConsole({ status });
    await expect(client.searchLog({}, { headers: operator })).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    });
  });

  test("says that others search, with a code of its own", async () => {
    const search = startConsole().client.searchLog({ query: "busy" }, { headers: operator });
    const refusal = { code: Code.ResourceExhausted, rawMessage: "others search" };
    await expect(search).rejects.toMatchObject(refusal);
  });

  test("refuses a message that is longer than any question", async () => {
    const call = startConsole().client.searchLog(
      { query: "x".repeat(5000) },
      { headers: operator },
    );
    await expect(call).rejects.toMatchObject({ code: Code.ResourceExhausted });
  });
});
