import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { authorityCommand } from "../../../../src/cli/verbs/authority/authority.ts";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { day, randomKek } from "../../../testkit/configuration.ts";
import {
  startUpstream,
  text,
  type UpstreamServer,
  vault,
} from "../../../testkit/network/upstream-server.ts";
import { createCa } from "../../../testkit/pki/plugged-in.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../../testkit/programs/store-toml.ts";
import { operatorRefusalOf } from "../../../testkit/refusal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const start = new Date("2026-06-01T00:00:00.000Z");
const root = await createCa("O=company,CN=root");
const secret = "hvs.secret-of-the-upstream";

let now: Date;
let config: string;
let terminal: MemoryTerminal;
let upstream: UpstreamServer;

const authority = (...words: readonly string[]) =>
  terminal.run(authorityCommand, [...words, "-c", config]);

const list = async (): Promise<{ id: string; phase: string; signs: boolean }[]> =>
  JSON.parse(await authority("list", "--json"));

const writeConfiguration = async (url: string): Promise<void> => {
  const lines = [
    'AUTHORITY_ROOT = "upstream"',
    `UPSTREAM_AUTHORITY = { kind = "vault", url = "${url}" }`,
    'MAX_WORKLOAD_CERT_TTL = "240h"\nAUTHORITY_LIFETIME = "1000h"\nPROPAGATION_INTERVAL = "600s"',
  ];
  await writeFile(config, storeToml(join(config, "../store"), ...lines));
};

/** An intermediate of the CA upstream signs, and the next one is due. */
beforeEach(async () => {
  config = join(await temporaryFolder(), "rampart.toml");
  now = start;
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  terminal.setVariable("UPSTREAM_CREDENTIAL", secret);
  upstream = await startUpstream(vault(root, () => now));
  await writeConfiguration(upstream.url);
  await authority("init", "--yes");
  now = addSeconds(start, 15 * day);
});

test.for<[string, UpstreamServer["behaviour"], string]>([
  ["refuses", text(403, "{}"), "the CA upstream answered with status 403"],
  ["is out of order", text(503, "oops"), "the CA upstream answered with status 503"],
  ["hangs up", (_, response) => void response.destroy(), "the CA upstream did not answer"],
  ["answers no JSON", text(200, "<html>"), "the CA upstream did not answer JSON"],
  [
    "certifies another key",
    async () => {
      const { pem } = await createCa("O=other", { issuer: root });
      return { data: { certificate: pem, ca_chain: [root.pem] } };
    },
    "the CA upstream gave no usable intermediate: a certificate for another key",
  ],
])(
  "rotate with an upstream that %s ends with 1 and says why, and nothing changes",
  async ([, behaviour, sentence]) => {
    const before = await list();
    upstream.behaviour = behaviour;
    const { message, exitCode } = await operatorRefusalOf(() => authority("rotate", "--yes"));
    expect([exitCode, message]).toEqual([1, expect.stringContaining(sentence)]);
    expect(message).not.toMatch(/\n/);
    expect(await list()).toEqual(before);
    expect(before).toEqual([expect.objectContaining({ phase: "signing", signs: true })]);
    expect(message + terminal.said).not.toContain(secret);
  },
);

test("rotate with an upstream that is not there ends with 1 and says why", async () => {
  await writeConfiguration("http://127.0.0.1:9");
  const { message, exitCode } = await operatorRefusalOf(() => authority("rotate", "--yes"));
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
  expect(terminal.exitCode).toBe(3);
  expect(await authority("plan")).toMatch(
    /Needs attention:\n {2}the next intermediate is due: it must be installed by [^\n]+; the CA upstream has given none \(the log says why\)\n/,
  );
  for (const [words, sentence] of [
    [["rotate"], "The CA upstream is asked for an intermediate, which signs once"],
    [["rotate", "--dry-run"], "nothing was done: a dry run does not ask the CA upstream"],
  ] as const) {
    expect((await operatorRefusalOf(() => authority(...words))).message).toContain(sentence);
  }
  expect(upstream.asked).toHaveLength(asked);
  upstream.behaviour = vault(root, () => now);
  await authority("rotate", "--yes");
  expect(JSON.parse(await authority("plan", "--json")).needsAttention).toEqual([]);
  expect(terminal.exitCode).toBeUndefined();
});

test("plan of an empty store says that the cron asks, and ends with 1", async () => {
  await writeConfiguration(upstream.url);
  config = join(config, "../other.toml");
  await writeFile(
    config,
    storeToml(
      join(config, "../empty"),
      'AUTHORITY_ROOT = "upstream"',
      `UPSTREAM_AUTHORITY = { kind = "vault", url = "${upstream.url}" }`,
    ),
  );
  upstream.behaviour = text(403, "{}");
  const plan = await operatorRefusalOf(() => authority("plan"));
  expect([plan.exitCode, plan.message]).toEqual([1, expect.stringContaining("holds no authority")]);
  const { message, exitCode } = await operatorRefusalOf(() => authority("init", "--yes"));
  expect([exitCode, message]).toEqual([1, "the CA upstream answered with status 403"]);
});
