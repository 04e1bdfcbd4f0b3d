import { execFileSync } from "node:child_process";
import { chmod, chown, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { type FindingName, findingNames } from "../../../../src/status/finding.ts";
import { stretchLightly } from "../../../testkit/light-scrypt.ts";
import { rows as outages } from "../../../testkit/outages/rows.ts";
import { Operator } from "../../operator.ts";

stretchLightly();

const founded = new Date("2026-11-21T12:00:00Z");
const later = (hours: number): Date => new Date(founded.getTime() + hours * 3_600_000);

let operator: Operator;

const store = () => operator.file("store");
const recordsIn = (folder: string) => readdir(operator.file(`store/${folder}`));

/** Types a verb in the folder of the configuration, and says yes to what it asks. */
async function verb(now: Date, line: string): Promise<string> {
  const [noun = "", ...words] = line
    .replace("rampart-backup.age", operator.file("rampart-backup.age"))
    .split(" ")
    .map((word) => word.replace(/^'(.*)'$/, "$1"));
  const asks = /^(?:authority (?:init|rotate|restore|taint)|deny remove) /.test(`${line} `);
  operator.now = now;
  const terminal = operator.terminalWith({});
  const program = await rampart(noun, terminal);
  await program.parseAsync([noun, ...words, ...(asks ? ["--yes"] : [])], { from: "user" });
  return terminal.printed;
}

/** Types a verb on the CA of this test. */
const onCa = (now: Date, line: string) => verb(now, `${line} -c ${operator.config}`);

interface Found {
  readonly name: FindingName;
  readonly remedy: string;
}

async function examined(now: Date): Promise<readonly Found[]> {
  const { findings } = JSON.parse(await onCa(now, "doctor --offline --json"));
  return findings.filter(({ name }: Found) => name !== "node-version");
}

/** Types a command of a remedy: of a shell, or of this program. */
async function type(command: string, now: Date): Promise<void> {
  if (command.startsWith("rampart ")) await verb(now, command.slice("rampart ".length));
  else execFileSync("/bin/sh", ["-c", command], { cwd: operator.file(".") });
}

const save = () => onCa(later(0.5), "authority export -o rampart-backup.age");
const lose = () => rm(store(), { recursive: true });

async function giveRecords(uid: number): Promise<void> {
  for (const path of await readdir(store(), { recursive: true }))
    await chown(join(store(), path), uid, uid);
}

interface Case {
  readonly name: FindingName;
  readonly state: string;
  readonly bring: () => Promise<unknown>;
  readonly now?: Date;
  /** Which command of the remedy is for this state, where it has others. */
  readonly command?: string;
  readonly isForRoot?: true;
  /** Whose the store is then: that of the user who serves. */
  readonly owner?: number;
}

const cases: readonly Case[] = [
  { name: "store-empty", state: "new", bring: lose, command: "init" },
  { name: "nothing-signs", state: "over", bring: async () => {}, now: later(24 * 365) },
  {
    name: "inception-date-passed",
    state: "without its folder, with a backup",
    bring: async () => {
      await save();
      await lose();
      await operator.configure('INCEPTION_DATE = "2026-01-01"');
    },
    command: "restore",
  },
  {
    name: "record-refused",
    state: "damaged",
    bring: async () => {
      await save();
      const [file = ""] = await recordsIn("authorities");
      await writeFile(operator.file(`store/authorities/${file}`), "{}");
    },
    command: "restore",
  },
  { name: "record-not-private", state: "open", bring: () => chmod(store(), 0o755) },
  {
    name: "record-owner",
    state: "a record of root's, for a service",
    bring: async () => {
      await onCa(later(0.1), "deny add node/a --until 48h --yes");
      await giveRecords(12_345);
      await chown(store(), 12_345, 12_345);
      const [file = ""] = await recordsIn("authorities");
      await chown(operator.file(`store/authorities/${file}`), 0, 0);
    },
    isForRoot: true,
    owner: 12_345,
  },
  {
    name: "record-owner",
    state: "the folder alone root's",
    bring: async () => {
      await giveRecords(12_345);
      await chown(store(), 0, 0);
    },
    isForRoot: true,
    owner: 12_345,
  },
  {
    name: "record-owner",
    state: "a record of another user's, for root",
    bring: async () => {
      await onCa(later(0.1), "deny add node/a --until 48h --yes");
      await onCa(later(0.1), "deny add node/b --until 48h --yes");
      const [file = ""] = await recordsIn("authorities");
      await chown(operator.file(`store/authorities/${file}`), 12_345, 12_345);
    },
    isForRoot: true,
    owner: 0,
  },
  { name: "authority-successor-missing", state: "due", bring: async () => {}, now: later(60) },
  { name: "authority-successor-late", state: "overdue", bring: async () => {}, now: later(95) },
  { name: "backup-old", state: "unsaved", bring: async () => {}, now: later(30) },
  {
    name: "taint-still-trusted",
    state: "tainted",
    bring: async () => {
      const [{ id }] = JSON.parse(await onCa(founded, "authority list --json"));
      await onCa(later(0.5), `authority taint ${id} --root with-last-leaf`);
    },
  },
  {
    name: "denial-ended",
    state: "over",
    bring: () => onCa(founded, "deny add ns/a*/sa/* --until 10m --yes"),
  },
];

/** Findings whose remedy a person carries out, or whose commands only show something. */
const forPeople: readonly FindingName[] = [
  ...(["account-refused", "namespaces-overlap", "configuration-example"] as const),
  ...(["configuration-warning", "connections-proxied", "platform-limits"] as const),
  ...(["inception-date-over", "key-exchange-classical", "node-version"] as const),
  ...(["workerd-version", "wrangler-version", "jwt-issuer-elsewhere"] as const),
  ...(["ca-away", "ca-needs-attention", "ca-not-ready", "kek-unavailable"] as const),
  ...(["cluster-away", "cluster-not-inspected", "bundle-missing", "bundle-stale"] as const),
  ...(["crl-ended", "crl-missing", "crl-stale", "next-step-due"] as const),
  ...(["issuer-key-unusable", "issuer-unreachable", "serving-certificate-unusable"] as const),
  ...(["store-full", "store-nearly-full", "subject-loose"] as const),
  ...(["store-overwrites"] as const),
];

beforeEach(async () => {
  operator = await Operator.create(
    founded,
    'MONITORING_LISTEN = "127.0.0.1:0"\nPROPAGATION_INTERVAL = "30s"\nMAX_WORKLOAD_CERT_TTL = "24h"',
    'TRUST_DOMAIN = "mesh.test"',
  );
  operator.terminal.setVariable("RAMPART_PASSPHRASE", "correct horse battery staple");
  await onCa(founded, "authority init");
});

const isRoot = process.geteuid?.() === 0;

describe("a remedy, typed as it stands, cures its finding, and brings no other", () => {
  test.each(cases.filter(({ isForRoot }) => isRoot || !isForRoot))("$name: $state", async (row) => {
    const { name, bring, now = later(1), command = "" } = row;
    await bring();
    const before = await examined(now);
    const remedy = before.find((found) => found.name === name)?.remedy ?? "";
    const commands = [...remedy.matchAll(/`([^`]+)`/g)].map(([, each = ""]) => each);
    await type(commands.find((each) => each.includes(command)) ?? "false", now);
    // A new authority signs after two intervals of propagation.
    const after = await examined(new Date(now.getTime() + 120_000));
    const known = before.map((found) => found.name);
    if (row.owner !== undefined) expect((await stat(store())).uid).toBe(row.owner);
    expect(after.filter((found) => found.name === name || !known.includes(found.name))).toEqual([]);
  });

  test("every finding has a remedy that is typed here, by the outages, or by a person", () => {
    const typedThere = outages.flatMap(({ cure, advice }) => (cure ? [advice.name] : []));
    const played = new Set<string>([...cases.map(({ name }) => name), ...typedThere]);
    const left = findingNames.filter((name) => !played.has(name));
    expect(left.filter((name) => !forPeople.includes(name))).toEqual([]);
    expect(forPeople.filter((name) => cases.some((each) => each.name === name))).toEqual([]);
  });
});
