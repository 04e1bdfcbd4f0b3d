import { beforeEach, expect, test } from "vitest";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { day } from "../../../testkit/configuration.ts";
import {
  startUpstream,
  text,
  type UpstreamServer,
  vault,
} from "../../../testkit/network/upstream-server.ts";
import { createCa } from "../../../testkit/pki/plugged-in.ts";
import { Operator } from "../../operator.ts";

const start = new Date("2026-06-01T00:00:00.000Z");
const root = await createCa("O=company,CN=root");
const secret = "hvs.secret-of-the-upstream";

let operator: Operator;
let upstream: UpstreamServer;

const authority = (...words: readonly string[]) => operator.authority(...words);
const list = () => operator.authorities();
const good = () => vault(root, () => operator.now);

const configure = (url: string) =>
  operator.configure(
    'AUTHORITY_ROOT = "upstream"',
    `UPSTREAM_AUTHORITY = { kind = "vault", url = "${url}" }`,
    'MAX_WORKLOAD_CERT_TTL = "240h"\nAUTHORITY_LIFETIME = "1000h"\nPROPAGATION_INTERVAL = "600s"',
  );

/** An intermediate of the CA upstream signs, and the next one is due. */
beforeEach(async () => {
  operator = await Operator.create(start);
  operator.terminal.setVariable("UPSTREAM_CREDENTIAL", secret);
  upstream = await startUpstream(good());
  await configure(upstream.url);
  await authority("init", "--yes");
  operator.now = addSeconds(start, 15 * day);
});

test.for<[string, UpstreamServer["behaviour"], string]>([
  ["refuses", text(403, "{}"), "the CA upstream answered with status 403"],
  ["hangs up", (_, response) => void response.destroy(), "the CA upstream did not answer"],
  ["answers no JSON", text(200, "<html>"), "the CA upstream did not answer JSON"],
])(
  "rotate with an upstream that %s ends with 1 and says why, and nothing changes",
  async ([, behaviour, sentence]) => {
    const before = await list();
    upstream.behaviour = behaviour;
    const { message, exitCode } = await operator.refusal("rotate", "--yes");
    expect([exitCode, message]).toEqual([1, expect.stringContaining(sentence)]);
    expect(message).not.toMatch(/\n/);
    expect(await list()).toEqual(before);
    expect(before).toEqual([expect.objectContaining({ phase: "signing", signs: true })]);
    expect(message + operator.terminal.said).not.toContain(secret);
  },
);

test("rotate with an upstream that is not there ends with 1 and says why", async () => {
  await configure("http://127.0.0.1:9");
  const { message, exitCode } = await operator.refusal("rotate", "--yes");
  expect([exitCode, message]).toEqual([1, "the CA upstream did not answer (ECONNREFUSED)"]);
  expect(await list()).toHaveLength(1);
});

test("plan asks nobody, and ends with 3 once the upstream has given none for an hour", async () => {
  upstream.behaviour = () => undefined;
  const asked = upstream.asked.length;
  expect(JSON.parse(await authority("plan", "--json")).nextStep).toMatchObject({
    act: "ask",
    isDue: true,
  });
  expect(operator.terminal.exitCode).toBe(3);
  expect(await authority("plan")).toMatch(
    /Needs attention:\n {2}the next intermediate is due: it must be installed by [^\n]+; the CA upstream has given none \(the log says why\)\n/,
  );
  for (const [words, sentence] of [
    [["rotate"], "The CA upstream is asked for an intermediate, which signs once"],
    [["rotate", "--dry-run"], "nothing was done: a dry run does not ask the CA upstream"],
  ] as const) {
    expect((await operator.refusal(...words)).message).toContain(sentence);
  }
  expect(upstream.asked).toHaveLength(asked);
  upstream.behaviour = good();
  await authority("rotate", "--yes");
  expect(JSON.parse(await authority("plan", "--json")).needsAttention).toEqual([]);
  expect(operator.terminal.exitCode).toBeUndefined();
});

test("plan of an empty store says that the cron asks, and ends with 1", async () => {
  await operator.moveTo("empty");
  upstream.behaviour = text(403, "{}");
  const plan = await operator.refusal("plan");
  expect([plan.exitCode, plan.message]).toEqual([1, expect.stringContaining("holds no authority")]);
  const { message, exitCode } = await operator.refusal("init", "--yes");
  expect([exitCode, message]).toEqual([1, "the CA upstream answered with status 403"]);
});
