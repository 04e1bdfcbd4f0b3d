import { beforeAll, describe, expect, test } from "vitest";
import { bearer, connectJson, type Outcome, outcomeOf, requestOf } from "../contract/rpc-calls.ts";
import { parseLogLine } from "../testkit/log/log-lines.ts";
import { endOf } from "../testkit/refusal.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { csr, stageWorker } from "./runtime/staged-worker.ts";

const lines = recordConsoleLines();
const worker = stageWorker({}, {}, lines);

/** The leaf of a workload in the form of the edge: base64 between colons. */
let leaf: string;

beforeAll(async () => {
  await worker.cron();
  const outcome = await worker.call();
  if (!("certChain" in outcome)) throw new Error(outcome.message);
  leaf = `:${outcome.certChain[0]?.replace(/-----[A-Z ]+-----|\n/g, "")}:`;
});

async function call(
  tlsClientAuth?: object,
  headers: Record<string, string> = {},
): Promise<Outcome> {
  const request = requestOf(connectJson, { csr }, headers);
  const cf = { tlsClientAuth };
  return outcomeOf(
    connectJson,
    await worker.send(tlsClientAuth ? new Request(request, { cf }) : request),
  );
}

const verified = () => ({ certVerified: "SUCCESS", certRevoked: "0", certRFC9440: leaf });

describe("a client certificate at the edge", () => {
  test("authenticates its caller when the edge has verified it", async () => {
    expect(await call(verified())).toHaveProperty("certChain");
  });

  test.each<[string, () => object, string?]>([
    ["was not verified", () => ({ ...verified(), certVerified: "FAILED:self signed certificate" })],
    ["was not presented", () => ({ ...verified(), certVerified: "NONE" })],
    ["is revoked", () => ({ ...verified(), certRevoked: "1" })],
    ["may be revoked", () => ({ ...verified(), certRevoked: "" })],
    ["is left out", () => ({ ...verified(), certRFC9440: "" })],
    ["is cut short", () => ({ ...verified(), certRFC9440: leaf.slice(0, 80) })],
    ["is not between colons", () => ({ ...verified(), certRFC9440: leaf.slice(1, -1) })],
    ["is junk", () => ({ ...verified(), certRFC9440: ":AAAA:" }), "credential-rejected form"],
  ])("authenticates no caller when it %s", async (_, auth, reason = "credential-missing") => {
    expect(await endOf(worker, () => call(auth()))).toBe(`Unauthenticated ${reason}`);
  });

  test("authenticates no caller in a header", async () => {
    const headers = {
      "client-cert": leaf,
      "cf-client-cert-der-base64": leaf.slice(1, -1),
      "x-forwarded-client-cert": "URI=spiffe://cluster.local/ns/foo/sa/bar",
    };
    expect(await endOf(worker, () => call(undefined, headers))).toBe(
      "Unauthenticated credential-missing",
    );
  });

  test("that does not parse leaves the decision to the token", async () => {
    const auth = { ...verified(), certRFC9440: ":AAAA:" };
    expect(await call(auth, await bearer(worker))).toHaveProperty("certChain");
  });
});

test("the audit trail has the address that the edge saw", async () => {
  const headers = { "cf-connecting-ip": "2001:db8::7", "x-forwarded-for": "192.0.2.1" };
  lines.length = 0;
  await call(verified(), headers);
  await call(verified(), { "cf-connecting-ip": "1".repeat(46) });
  const peers = ["2001:db8::7", "1".repeat(45)];
  expect(lines.map(parseLogLine)).toMatchObject(
    peers.map((peer) => ({ proof: "certificate", peer })),
  );
});
