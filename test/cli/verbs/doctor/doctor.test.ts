import { chmod, chown, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { stringify } from "smol-toml";
import { beforeEach, describe, expect, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { doctorCommand } from "../../../../src/cli/verbs/doctor/doctor.ts";
import type { Judgement } from "../../../../src/cli/verbs/doctor/examination.ts";
import { keyExchangeFindings } from "../../../../src/cli/verbs/doctor/machine-findings.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { Runtime } from "../../../../src/program/runtime.ts";
import type { FindingName } from "../../../../src/status/finding.ts";
import { createTokenKey, jwksOf } from "../../../testkit/callers/tokens.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { startLoopbackServer } from "../../../testkit/network/loopback-server.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { Operator } from "../../operator.ts";

const founded = new Date("2026-11-21T12:00:00Z");
const later = (hours: number): Date => new Date(founded.getTime() + hours * 3_600_000);
const jwks = jwksOf(await createTokenKey("ES256", "a"));
const issuers = stringify({ ISSUERS: [{ issuer: "https://a.test", jwks }] });

let operator: Operator;

const config = () => operator.config;
const store = () => operator.file("store");

const usual = [
  'MONITORING_LISTEN = "127.0.0.1:0"',
  'PROPAGATION_INTERVAL = "30s"',
  'MAX_WORKLOAD_CERT_TTL = "24h"',
  'TRUST_DOMAIN = "mesh.test"',
];

/** Writes a configuration that is complete but for a port of monitoring: `world-findings.test.ts` asks one. */
const configure = (line = "", tables = issuers) =>
  writeFile(
    config(),
    [`STORE_DIRECTORY = ${JSON.stringify(store())}`, ...usual, line, tables].join("\n"),
  );

function doctor(now: Date, ...words: readonly string[]): Promise<string> {
  operator.now = now;
  return operator.run(doctorCommand, words);
}

interface Report {
  readonly worst?: string;
  readonly findings: readonly Judgement[];
}

async function examined(now: Date = later(1)): Promise<Report> {
  const report: Report = JSON.parse(await doctor(now, "--json"));
  for (const { remedy } of report.findings) await requireTypable(remedy);
  return report;
}

/** Every command of `rampart` in a remedy is one that its own parser takes, and names the CA. */
async function requireTypable(remedy: string): Promise<void> {
  for (const [, line = ""] of remedy.matchAll(/`rampart ([^`]+)`/g)) {
    const words = line.split(" ");
    const program = await rampart(words[0] ?? "", new MemoryTerminal());
    let leaf = program.exitOverride();
    for (const word of words) {
      const next: Command | undefined = leaf.commands.find((each) => each.name() === word);
      if (!next) break;
      leaf = next.exitOverride().configureOutput({ writeErr: () => {} });
    }
    leaf.action(() => {});
    await program.parseAsync(words, { from: "user" });
    if (!/^(?:cluster enrol|docs )/.test(line)) expect(words).toContain("--config");
  }
  expect(remedy).not.toMatch(/<\w+>|(?<!`)rampart [a-z]/);
}

const namesAt = async (now?: Date): Promise<FindingName[]> =>
  (await examined(now)).findings
    .map(({ name }) => name)
    .filter((name) => name !== "cluster-not-inspected" && name !== "node-version");

beforeEach(async () => {
  operator = await Operator.founded(founded, ...usual);
  await configure();
});

describe("a healthy CA", () => {
  test("has no finding, and the checkup ends with 0", async () => {
    expect(await namesAt()).toEqual([]);
    expect(operator.terminal.exitCode).toBe(Runtime.faults().length === 0 ? 0 : 3);
  });

  test("is as it was afterwards", async () => {
    const files = () => readdir(operator.file("."), { recursive: true });
    const before = await files();
    await examined();
    expect(await files()).toEqual(before);
  });

  test("is told of in sentences, and asked what it says of itself, unless the checkup is offline", async () => {
    const { origin, requests } = await startLoopbackServer((_, response) => response.end("{}"));
    const text = await readFile(config(), "utf8");
    await writeFile(config(), text.replace("127.0.0.1:0", new URL(origin).host));
    expect(await doctor(later(1), "--offline")).toContain(`Looked at the files in ${store()}.`);
    expect(requests).toEqual([]);
    expect(await namesAt()).toEqual(["ca-away"]);
    expect(requests).toEqual(["/readyz"]);
  });

  test("has the findings of its signers under their names, and of nobody else's", async () => {
    const callers = '[{ issuer = "https://a.test", namespaces = ["*"], accounts = ["*"] }]';
    await configure(`SIGNERS = [{ name = "team-a", callers = ${callers} }]`);
    const { findings } = await examined();
    const [empty] = findings.filter(({ name }) => name === "store-empty");
    expect(empty?.what).toMatch(/^Signer team-a: /);
    expect(empty?.remedy).toContain("--signer team-a");
  });
});

describe("a store whose authority another KEK has sealed", () => {
  test.each([
    ["with the same id", "k1", "Compare the value of KEK with the copy"],
    ["with another id", "k2", "Set the KEK that sealed it"],
  ])("is not empty: a KEK %s is compared, and no authority is made", async (_, id, remedy) => {
    operator.terminal.setVariable("KEK", randomKek(id));
    expect(await namesAt()).toEqual(["nothing-signs", "record-refused"]);
    const { findings } = await examined();
    const [refused, nothing] = ["record-refused", "nothing-signs"].map((name) =>
      findings.find((each) => each.name === name),
    );
    expect(nothing?.what).toBe(
      "The store holds 1 record of an authority, and none opens with this KEK.",
    );
    expect(refused?.remedy).toContain(remedy);
    expect(findings.map((each) => each.remedy).join()).not.toContain("authority init");
  });
});

describe("a CA that is not well", () => {
  test("has every fault of its configuration named, the first too", async () => {
    await configure('CRL = "maybe"\nBUNDLE_WAIT = "x"');
    const { findings } = await examined();
    const fault = findings.find(({ name }) => name === "configuration-invalid");
    expect(fault?.what).toMatch(/^[A-Z_]+: .*; [A-Z_]+: /);
    for (const key of ["CRL: ", "BUNDLE_WAIT: "]) expect(fault?.what).toContain(key);
  });

  test.each<[FindingName, string, () => Promise<unknown>, Date?]>([
    ["kek-missing", "without its KEK", async () => operator.terminal.setVariable("KEK", undefined)],
    ["configuration-invalid", "with a key that nobody knows", () => configure("X = 1")],
    [
      "record-not-private",
      "with a record that everybody may read",
      async () => {
        const [file = ""] = await readdir(join(store(), "authorities"));
        await chmod(join(store(), "authorities", file), 0o644);
      },
    ],
    [
      "store-unreadable",
      "whose folder is a file",
      async () => {
        await rm(join(store(), "authorities"), { recursive: true });
        await writeFile(join(store(), "authorities"), "");
      },
    ],
    [
      "store-unreadable",
      "whose folder this user cannot reach",
      async () => {
        // For root, no folder is forbidden; a circle of links is.
        await symlink("circle", operator.file("circle"));
        const text = await readFile(config(), "utf8");
        await writeFile(config(), text.replace(store(), operator.file("circle/store")));
      },
    ],
    [
      "next-step-due",
      "whose next intermediate is not there",
      () => configure('AUTHORITY_ROOT = "offline"'),
      later(95),
    ],
  ])("has %s %s", async (name, _, make, now) => {
    const kek = operator.terminal.environment["KEK"];
    await make();
    const { findings } = await examined(now);
    expect(findings.map((each) => each.name)).toContain(name);
    expect(findings.map(({ what }) => what).join()).not.toContain(kek);
  });

  test.runIf(process.getuid?.() === 0)(
    "has no record-owner in the folder of a volume, which its group may use",
    async () => {
      const below = await readdir(store(), { recursive: true });
      for (const path of below) await chown(join(store(), path), 12_345, 12_346);
      await chmod(store(), 0o770);
      expect(await namesAt()).toEqual([]);
      await chmod(store(), 0o700);
      expect(await namesAt()).toEqual(["record-owner"]);
    },
  );

  test("is told of by the exit code", async () => {
    await chmod(store(), 0o755);
    await examined();
    expect(operator.terminal.exitCode).toBe(3);
    await rm(store(), { recursive: true });
    await configure('INCEPTION_DATE = "2026-01-01"');
    expect((await examined()).worst).toBe("error");
    expect(operator.terminal.exitCode).toBe(4);
  });
});

test.each(["2026-01-01", founded.toISOString().slice(0, 10), undefined])(
  "a store that may have lost its records with the inception date %s is restored before a new CA is made",
  async (date) => {
    await rm(store(), { recursive: true });
    await configure(date === undefined ? "" : `INCEPTION_DATE = "${date}"`);
    const { findings } = await examined(founded);
    const remedies = findings.filter(({ remedy }) => remedy.includes("For a new CA"));
    expect(remedies).not.toEqual([]);
    for (const { remedy } of remedies)
      expect(remedy).toMatch(/had records, .*`rampart authority restore .* For a new CA/);
  },
);

describe("examples of wrangler.toml", () => {
  test.each([
    ['id = "0123456789abcdef0123456789abcdef"', "KV namespace"],
    ['routes = [{ pattern = "ca.example.com", custom_domain = true }]', "routes"],
  ])("%s is found", async (line, word) => {
    await configure(`# ${line}`);
    expect(await namesAt()).toEqual([]);
    await configure(line);
    const { findings } = await examined();
    expect(findings.map(({ what }) => what).join()).toContain(word);
  });
});

test("each finding says what it was judged by: the configuration, the store, or those who were asked", async () => {
  await chmod(store(), 0o755);
  await configure("", 'ISSUERS = [{ issuer = "https://issuer.example.com" }]');
  const { findings } = await examined();
  const sources = new Map(findings.map(({ name, source }) => [name, source]));
  expect(sources.get("configuration-example")).toBe("rampart.toml and the environment");
  expect(sources.get("record-not-private")).toBe(`files in ${store()}`);
  expect(sources.get("issuer-unreachable")).toBe("issuers and clusters, asked now");
  expect(await doctor(later(1), "--offline")).toContain(
    "Judged by: rampart.toml and the environment",
  );
});

test("a configuration that does not exist is no finding", async () => {
  const missing = ["-c", operator.file("none.toml")];
  await expect(operator.terminal.run(doctorCommand, missing)).rejects.toThrow(OperatorError);
});

test("finds a runtime without a post-quantum key exchange", () => {
  expect(keyExchangeFindings(true)).toEqual([]);
  expect(keyExchangeFindings(false)).toMatchObject([{ name: "key-exchange-classical" }]);
});
