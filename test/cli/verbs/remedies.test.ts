import { execFileSync } from "node:child_process";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { chmod, chown, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommanderError } from "commander";
import { beforeEach, describe, expect, test } from "vitest";
import { rampart } from "../../../src/cli/rampart.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type FindingName, findingNames } from "../../../src/status/finding.ts";
import { stretchLightly } from "../../testkit/light-scrypt.ts";
import { rows as outages } from "../../testkit/outages/rows.ts";
import { signIntermediate } from "../../testkit/pki/company-ca.ts";
import { createCa, writeCacerts } from "../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { Operator } from "../operator.ts";
import { remedyLines, untyped } from "./untyped-remedies.ts";

const day = 86_400;
const start = new Date("2026-06-01T00:00:00.000Z");
const root = await createCa("O=company,CN=root");
const nextRoot = await createCa("O=company,CN=next root");

const passphrase = "correct horse battery staple";

let operator: Operator;

const file = (name: string) => operator.file(name);
const pass = (seconds: number) => {
  operator.now = addSeconds(operator.now, seconds);
};
const offline = () => operator.configure('AUTHORITY_ROOT = "offline"');

interface Run {
  readonly printed: string;
  readonly said: string;
  /** Whether the verb did it. */
  readonly isDone: boolean;
}

/** Types words as they stand. Nothing but an OperatorError may end a verb. */
async function typed(words: readonly string[]): Promise<Run> {
  const terminal = operator.terminalWith({});
  const [noun = ""] = words;
  let isDone = true;
  try {
    await (await rampart(noun, terminal)).parseAsync([...words], { from: "user" });
  } catch (error) {
    if (!(error instanceof OperatorError) && !(error instanceof CommanderError)) throw error;
    if (error instanceof OperatorError) terminal.complain(error.message);
    isDone = error.exitCode === 0 || error.exitCode > 2;
  }
  return { printed: terminal.printed, said: terminal.said, isDone };
}

const verb = (line: string, ...words: readonly string[]) =>
  typed([...line.split(" "), ...words, "-c", operator.config]);

/** A slow machine says what a verb is still at. */
const complaintsIn = ({ said }: Run) => said.match(/^rampart: (?!still ).*/gm) ?? [];

function requireDone(run: Run): void {
  expect(complaintsIn(run)).toEqual([]);
  expect(run.isDone).toBe(true);
}

/** Types a verb that has to do it. @returns What it prints. */
async function done(line: string, ...words: readonly string[]): Promise<string> {
  const run = await verb(line, ...words);
  requireDone(run);
  return run.printed;
}

const listed = async (): Promise<readonly { readonly id: string }[]> =>
  JSON.parse(await done("authority list", "--json"));
const requests = async (): Promise<readonly unknown[]> =>
  JSON.parse(await done("authority requests", "--json"));

const chain = () => file("chain.pem");
const installAnswer = () => done("authority install", chain());

/** Signs a request for an intermediate, and writes the answer under the name that the advice has. */
async function certified(csr: string): Promise<void> {
  const pem = await signIntermediate(root, csr, { notAfter: addSeconds(operator.now, 365 * day) });
  await writeFile(chain(), pem + root.pem);
}

async function requestAnswered(): Promise<Run> {
  const run = await verb("authority request");
  await certified(run.printed);
  return run;
}

/** Makes a CA below another root. */
async function intermediate(): Promise<void> {
  await offline();
  await requestAnswered();
  await installAnswer();
}

/** Makes a CA, and writes its certificate under this name. @returns The id of its authority. */
async function initShown(name: string): Promise<string> {
  await init();
  const [{ id } = { id: "" }] = await listed();
  const shown = await done("authority show", id);
  await writeFile(file(name), shown.slice(shown.indexOf("-----BEGIN")));
  return id;
}

async function pluggedIn(): Promise<string> {
  const notAfter = addSeconds(operator.now, 700 * day);
  const ca = await createCa("O=mesh,CN=plugged in", { issuer: root, notAfter });
  return writeCacerts(await temporaryFolder(), ca, { roots: root.pem });
}

const commandsIn = ({ printed, said }: Run): readonly string[] =>
  [
    ...`${printed}\n${said}`.matchAll(
      /`((?:rampart|openssl|chmod) [^`]+)`|^ *(rampart [a-z].*)$/gm,
    ),
  ].map(([, quoted, alone]) => quoted ?? alone ?? "");

const wordsOf = (line: string): string[] =>
  [...line.matchAll(/'((?:[^']|'\\'')*)'|(\S+)/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll("'\\''", "'") ?? plain ?? "",
  );

/** Names of files that the advice cannot know. */
const placeholders = /^(?:chain|ROOTS?|KEY|DECRYPTED)\.pem$|^rampart-backup\.age$/;

function type(command: string): Promise<Run> {
  const words = wordsOf(command).map((word) => (placeholders.test(word) ? file(word) : word));
  if (words[0] !== "rampart") {
    // Somebody types the passphrase of the key.
    const more = words[0] === "openssl" ? ["-passin", "pass:secret"] : [];
    execFileSync(words[0] ?? "", [...words.slice(1), ...more], { stdio: "pipe" });
    return Promise.resolve({ printed: "", said: "", isDone: true });
  }
  const asks = /^(?:authority (?:init|rotate|restore|taint)|deny (?:add|remove)|root remove)$/;
  const isAsked = asks.test(words.slice(1, 3).join(" "));
  return typed([...words.slice(1), ...(isAsked ? ["--yes"] : [])]);
}

interface Case {
  /** The text of the source that prints it. */
  readonly text: string;
  /** Where several states have the same text. */
  readonly state?: string;
  /** Brings the state, and types what prints the advice. */
  readonly bring: () => Promise<Run>;
  /** What the command leads to, where it is not enough that the command does it. */
  readonly cured?: (advised: Run) => Promise<unknown>;
}

const init = () => verb("authority init", "--yes");
const restore = () =>
  verb("authority restore", file("rampart-backup.age"), "-i", file("identity"), "--yes");

const cases: readonly Case[] = [
  { text: "rampart authority plan", bring: init },
  {
    text: "rampart authority export --out rampart-backup.age",
    bring: init,
    cured: async () => expect(await readFile(file("rampart-backup.age"), "utf8")).not.toBe(""),
  },
  {
    text: "rampart doctor",
    bring: async () => {
      const id = await initShown("root.pem");
      return verb("authority taint", id, "--root", "with-last-leaf", "--yes");
    },
  },
  {
    text: "create one with `rampart authority init`",
    bring: () => verb("authority plan"),
    cured: () => done("authority plan"),
  },
  {
    text: "make a request with `rampart authority request`, or import one",
    bring: async () => {
      await offline();
      return verb("authority plan");
    },
    cured: async () => expect(await requests()).toHaveLength(1),
  },
  {
    text: "make a request with `rampart authority request`, and install its answer",
    bring: async () => {
      await offline();
      return init();
    },
    cured: async ({ printed }) => {
      await certified(printed);
      await installAnswer();
    },
  },
  {
    text: "the store holds no open request: make one with `rampart authority request`",
    bring: async () => {
      await offline();
      await writeFile(chain(), root.pem);
      return verb("authority install", chain());
    },
    cured: async ({ printed }) => {
      await certified(printed);
      await installAnswer();
    },
  },
  {
    text: "install the answer to the open request with `rampart authority install chain.pem`",
    bring: async () => {
      await offline();
      await requestAnswered();
      return verb("authority plan");
    },
    cured: () => done("authority plan"),
  },
  {
    text: "rampart authority install chain.pem",
    state: "after a request",
    bring: async () => {
      await offline();
      return requestAnswered();
    },
    cured: async () => expect(await listed()).toHaveLength(1),
  },
  {
    text: 'command: "rampart authority install chain.pem"',
    state: "in the plan, with an open request",
    bring: async () => {
      await intermediate();
      pass(200 * day);
      await requestAnswered();
      return verb("authority plan");
    },
    cured: async () => expect(await listed()).toHaveLength(2),
  },
  {
    text: 'command: "rampart authority request"',
    state: "in the plan, when the next intermediate is due",
    bring: async () => {
      await intermediate();
      pass(340 * day);
      return verb("authority plan");
    },
    cured: async () => expect(await requests()).toHaveLength(1),
  },
  {
    text: "for the key of an open request (\\`rampart authority requests\\`)",
    bring: async () => {
      await offline();
      await done("authority request");
      await writeFile(file("other.pem"), nextRoot.pem);
      return verb("authority install", file("other.pem"));
    },
    cured: async ({ printed }) => expect(printed).toMatch(/EC-P256/),
  },
  {
    text: "`rampart authority list` shows what the store holds",
    state: "as a signal interrupts a verb",
    bring: async () => {
      const { printed } = await init();
      const said = `a part may be done: \`rampart authority list --config ${operator.config}\``;
      return { printed, said, isDone: false };
    },
  },
  {
    text: "publish the root of the backup first: \\`rampart root add ROOTS.pem\\`",
    bring: async () => {
      await initShown("ROOTS.pem");
      const recipient = await operator.recipient();
      await done("authority export", "-o", file("rampart-backup.age"), ...recipient);
      await operator.moveTo("other");
      await init();
      return restore();
    },
    cured: async () => {
      pass(10 * day + 1300);
      requireDone(await restore());
    },
  },
  {
    text: "has a root that the trust bundle has not",
    state: "beside that of the authority",
    bring: async () => {
      await offline();
      const plugged = await pluggedIn();
      await done("authority import", plugged);
      await writeFile(join(plugged, "root-cert.pem"), root.pem + nextRoot.pem);
      await writeFile(file("plugged"), plugged);
      return verb("authority import", plugged);
    },
    cured: async () => {
      expect(JSON.parse(await done("root list", "--json"))).toHaveLength(1);
      await done("authority import", await readFile(file("plugged"), "utf8"));
    },
  },
  {
    text: "rampart cluster check",
    state: "after an import",
    bring: async () => {
      const toml = await readFile(operator.config, "utf8");
      const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const { x, y } = publicKey.export({ format: "jwk" });
      const key = `{ kty = "EC", crv = "P-256", alg = "ES256", kid = "a", x = "${x}", y = "${y}" }`;
      await writeFile(operator.config, `${toml}\njwks = { keys = [${key}] }\n`);
      return verb("authority import", await pluggedIn());
    },
  },
  {
    text: "is an authority: \\`rampart authority taint",
    bring: async () => {
      await initShown("authority.pem");
      return verb("certificate revoke", file("authority.pem"), "--yes");
    },
    cured: async () =>
      expect(await listed()).toContainEqual(expect.objectContaining({ isTainted: true })),
  },
  {
    text: "`  rampart deny add $",
    bring: async () => {
      await init();
      await operator.leaf("leaf.pem", (await operator.issuers())[0]);
      return verb("certificate revoke", file("leaf.pem"), "--yes");
    },
    cured: async () => expect(JSON.parse(await done("deny list", "--json"))).toHaveLength(1),
  },
  {
    text: "see \\`rampart deny list\\`",
    bring: async () => {
      await init();
      return verb("deny remove", "node/nobody", "--yes");
    },
    cured: async ({ printed }) => expect(printed).toContain("Nobody is denied"),
  },
  { text: '["rampart kek new --help"', bring: () => typed(["kek", "new", "k2"]) },
  {
    text: "`openssl pkey -in ",
    bring: async () => {
      const plugged = await pluggedIn();
      const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const cipher = { type: "pkcs8", format: "pem", cipher: "aes-256-cbc" } as const;
      const pem = privateKey.export({ ...cipher, passphrase: "secret" });
      await writeFile(join(plugged, "ca-key.pem"), pem);
      await writeFile(file("plugged"), plugged);
      return verb("authority import", plugged);
    },
    cured: async () => {
      const pem = await readFile(file("DECRYPTED.pem"), "utf8");
      expect(createPrivateKey(pem).type).toBe("private");
    },
  },
  {
    text: "is open to every user of the machine: \\`chmod",
    bring: async () => {
      await mkdir(file("store"));
      await chmod(file("store"), 0o755);
      return init();
    },
    cured: () => done("authority init", "--yes"),
  },
];

stretchLightly();

describe("an advised command, typed as it stands, is done on the CA that the advice is about", () => {
  beforeEach(async () => {
    const lengths = `MAX_WORKLOAD_CERT_TTL = "${10 * day}s"\nPROPAGATION_INTERVAL = "600s"`;
    operator = await Operator.create(start, lengths);
    operator.terminal.setVariable("RAMPART_PASSPHRASE", passphrase);
  });

  test.each(cases)("$text $state", async ({ text, bring, cured }) => {
    const [name = ""] = /(?:rampart|openssl|chmod) (?:[a-z-]+ ?)+/.exec(text) ?? [];
    const commands = commandsIn(await bring());
    const command = commands.find((each) => each.startsWith(name.trim()));
    expect(command, commands.join("\n")).toBeDefined();
    const advised = await type(command ?? "");
    requireDone(advised);
    await cured?.(advised);
  });
});

test("every line of the source that prints a command is typed, or has its reason", async () => {
  const known = [...cases.map(({ text }) => text), ...Object.keys(untyped)];
  const lines = await remedyLines();
  expect(lines.filter((line) => !known.some((text) => line.includes(text)))).toEqual([]);
  expect(known.filter((text) => !lines.some((line) => line.includes(text)))).toEqual([]);
});

const hour = 3600;
const isRoot = process.geteuid?.() === 0;
const store = () => file("store");
const recordsIn = (folder: string) => readdir(join(store(), folder));
const lose = () => rm(store(), { recursive: true });
const nothing = async (): Promise<void> => {};

/** Sets the clock so many hours after the CA was founded. */
const at = (hours: number) => {
  operator.now = addSeconds(start, hours * hour);
};

const save = () => {
  at(0.5);
  return done("authority export -o", file("rampart-backup.age"));
};

async function giveRecords(uid: number): Promise<void> {
  for (const path of await readdir(store(), { recursive: true }))
    await chown(join(store(), path), uid, uid);
}

async function giveAuthority(uid: number): Promise<void> {
  const [name = ""] = await recordsIn("authorities");
  await chown(join(store(), "authorities", name), uid, uid);
}

interface Found {
  readonly name: FindingName;
  readonly remedy: string;
}

async function examined(hours: number): Promise<readonly Found[]> {
  at(hours);
  const { findings } = JSON.parse((await verb("doctor --offline --json")).printed);
  return findings.filter(({ name }: Found) => name !== "node-version");
}

interface FindingCase {
  readonly name: FindingName;
  readonly state: string;
  readonly bring?: () => Promise<unknown>;
  /** When it is found, in hours. */
  readonly hours?: number;
  /** Which command of the remedy is for this state, where it has others. */
  readonly command?: string;
  /** Whose the store is then, for a test that root runs: that of the user who serves. */
  readonly owner?: number;
}

const findings: readonly FindingCase[] = [
  { name: "store-empty", state: "new", bring: lose, command: "init" },
  { name: "nothing-signs", state: "over", hours: 24 * 365 },
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
      const [name = ""] = await recordsIn("authorities");
      await writeFile(join(store(), "authorities", name), "{}");
    },
    command: "restore",
  },
  { name: "record-not-private", state: "open", bring: () => chmod(store(), 0o755) },
  {
    name: "record-owner",
    state: "a record of root's, for a service",
    bring: async () => {
      await done("deny add node/a --until 48h --yes");
      await giveRecords(12_345);
      await chown(store(), 12_345, 12_345);
      await giveAuthority(0);
    },
    owner: 12_345,
  },
  {
    name: "record-owner",
    state: "the folder alone root's",
    bring: async () => {
      await giveRecords(12_345);
      await chown(store(), 0, 0);
    },
    owner: 12_345,
  },
  {
    name: "record-owner",
    state: "a record of another user's, for root",
    bring: async () => {
      for (const node of ["a", "b"]) await done(`deny add node/${node} --until 48h --yes`);
      await giveAuthority(12_345);
    },
    owner: 0,
  },
  { name: "authority-successor-missing", state: "due", hours: 60 },
  { name: "authority-successor-late", state: "overdue", hours: 95 },
  { name: "backup-old", state: "unsaved", hours: 30 },
  {
    name: "taint-still-trusted",
    state: "tainted",
    bring: async () => {
      const [{ id } = { id: "" }] = await listed();
      at(0.5);
      await done("authority taint", id, "--root", "with-last-leaf", "--yes");
    },
  },
  {
    name: "denial-ended",
    state: "over",
    bring: () => done("deny add ns/a*/sa/* --until 10m --yes"),
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

describe("a remedy of a finding, typed as it stands, cures that, and brings no other", () => {
  beforeEach(async () => {
    operator = await Operator.founded(
      start,
      'MONITORING_LISTEN = "127.0.0.1:0"\nPROPAGATION_INTERVAL = "30s"\nMAX_WORKLOAD_CERT_TTL = "24h"',
      'TRUST_DOMAIN = "mesh.test"',
    );
    operator.terminal.setVariable("RAMPART_PASSPHRASE", passphrase);
  });

  test.each(findings.filter(({ owner }) => isRoot || owner === undefined))(
    "$name: $state",
    async ({ name, bring = nothing, hours = 1, command = "", owner }) => {
      await bring();
      const before = await examined(hours);
      const remedy = before.find((found) => found.name === name)?.remedy ?? "";
      const commands = [...remedy.matchAll(/`([^`]+)`/g)].map(([, each = ""]) => each);
      await type(commands.find((each) => each.includes(command)) ?? "false");
      // A new authority signs after two intervals of propagation.
      const after = await examined(hours + 1 / 30);
      const known = before.map((found) => found.name);
      if (owner !== undefined) expect((await stat(store())).uid).toBe(owner);
      expect(after.filter((found) => found.name === name || !known.includes(found.name))).toEqual(
        [],
      );
    },
  );

  test("every finding has a remedy that is typed here, by the outages, or by a person", () => {
    const typedThere = outages.flatMap(({ cure, advice }) => (cure ? [advice.name] : []));
    const played = new Set<string>([...findings.map(({ name }) => name), ...typedThere]);
    const left = findingNames.filter((name) => !played.has(name));
    expect(left.filter((name) => !forPeople.includes(name))).toEqual([]);
    expect(forPeople.filter((name) => findings.some((each) => each.name === name))).toEqual([]);
  });
});
