import { randomBytes } from "node:crypto";
import { Command } from "commander";
import { ConfiguredKeks } from "../../config/keks.ts";
import { Kek } from "../../custody/kek.ts";
import { WrappedKek } from "../../custody/key-service/kek-lease.ts";
import { wrapKek } from "../../custody/key-service/operators-keys.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { jsonIn } from "../../foundation/json-members.ts";
import { Session, type SessionOptions } from "../session/session.ts";
import { ofKeyService, openKeyServices } from "../session/stores.ts";
import {
  addDeploymentOptions,
  addExitCodes,
  exitCodes,
  usageError,
} from "../terminal/command-line.ts";
import { formatTable } from "../terminal/table.ts";
import type { NextCommand, Terminal } from "../terminal/terminal.ts";

interface ListOptions extends SessionOptions {
  readonly retire?: string;
}

/** `rampart kek …`: makes, wraps and lists the keys that seal the authorities' keys. */
export function kekCommand(terminal: Terminal): Command {
  const kek = new Command("kek").description("the keys that seal the authorities' keys");
  kek
    .command("new")
    .argument("<id>", "a name for it, such as the month")
    .description("print a fresh KEK for the secret KEK")
    .addHelpText("after", changeHelp)
    .action((id: string) => printNew(terminal, id));
  addDeploymentOptions(kek.command("wrap"))
    .argument("<id>", "a new KEK's name, or one that KEK has")
    .argument("<key...>", "the URIs of keys in key services, each of which shall open it")
    .description("print a KEK that a key service opens, for KEK; its octets are never shown")
    .addHelpText("after", wrapHelp)
    .action((id: string, keys: string[], options: SessionOptions) =>
      wrap(terminal, options, id, keys),
    );
  addDeploymentOptions(kek.command("unwrap"))
    .argument("<id>", "a KEK that a key service opens")
    .description(
      "print its octets, which are a secret, for a move back to a KEK without a key service",
    )
    .action((id: string, options: SessionOptions) => unwrap(terminal, options, id));
  addExitCodes(addDeploymentOptions(kek.command("list")), {
    attention: "With --retire: a record is still sealed with this KEK.",
  })
    .description("count the records that each KEK seals; every record is opened as a check")
    .option("--json", "print JSON")
    .option("--retire <id>", "fail while any record is still sealed with this KEK")
    .action(Session.action(terminal, list));
  return kek;
}

const changeHelp = `
To change the KEK while every reader can open every record:
  1. append the new KEK:   KEK=old,new   every reader can open records under either
  2. then put it first:    KEK=new,old   the next cron run seals every record anew
  3. rampart kek list --retire <old id>  fails until no record needs the old KEK; then wait one more
                           PROPAGATION_INTERVAL, until every reader has the new records, and drop it`;

const wrapHelp = `
A key of AWS KMS, Google Cloud KMS, Azure Key Vault, or the transit engine of Vault and OpenBao:
  awskms:///arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
  gcpkms://projects/mesh/locations/europe-west3/keyRings/mesh/cryptoKeys/kek
  azurekms://mesh.vault.azure.net/keys/kek/0123456789abcdef0123456789abcdef
  hashivault://vault.example.com:8200/transit/keys/rampart
A KEK that nobody has seen takes a new id, and its place as \`rampart kek new --help\` says.`;

const nextSteps: readonly NextCommand[] = [
  [
    "npx wrangler secret put KEK",
    "gives it to a Worker; `rampart serve` reads KEK in its environment",
  ],
  ["sam deploy --parameter-overrides Kek=…", "gives it to a function of AWS Lambda"],
  ["rampart kek new --help", "says how to put it in the place of another KEK"],
];

/** Wraps a KEK by each key, and prints the wrapped texts. The KEK is that of the configuration with this id, or a new one. */
async function wrap(
  terminal: Terminal,
  options: SessionOptions,
  id: string,
  keys: readonly string[],
): Promise<void> {
  const { configuration, keyServices } = await openKeyServices(terminal, options);
  const { trustDomain, keks } = configuration;
  const known = keks.find((kek) => kek.id === id);
  requireId(id);
  const octets =
    known === undefined
      ? new Uint8Array(randomBytes(Kek.octets))
      : "octets" in known
        ? known.octets
        : await ofKeyService(WrappedKek.open(known, trustDomain, keyServices));
  const entries: string[] = [];
  for (const uri of keys) {
    const wrapped = wrapKek({ id, octets }, uri, trustDomain, keyServices);
    entries.push(ConfiguredKeks.format(await ofKeyService(wrapped)));
  }
  terminal.print(entries.join(","));
  terminal.noticeNext(nextSteps);
}

async function unwrap(terminal: Terminal, options: SessionOptions, id: string): Promise<void> {
  const { configuration, keyServices } = await openKeyServices(terminal, options);
  const kek = configuration.keks.find((each) => each.id === id);
  if (!(kek && "mark" in kek)) throw new OperatorError(`KEK has no ${id} that a key service opens`);
  const octets = await ofKeyService(WrappedKek.open(kek, configuration.trustDomain, keyServices));
  terminal.print(`${id}:${Buffer.from(octets).toString("base64")}`);
}

function requireId(id: string): void {
  if (
    !ConfiguredKeks.schema.safeParse(`${id}:${Buffer.alloc(Kek.octets).toString("base64")}`).success
  )
    throw usageError("a KEK's id is 1 to 64 letters, digits, dots, - and _");
}

function printNew(terminal: Terminal, id: string): void {
  const entry = `${id}:${randomBytes(Kek.octets).toString("base64")}`;
  requireId(id);
  terminal.print(entry);
  terminal.noticeNext(nextSteps);
}

async function list(session: Session, options: ListOptions): Promise<void> {
  const { terminal } = session;
  const { retire } = options;
  const store = await Session.open(session);
  const reports = await reportKeks(session);
  const rows = reports.map(({ id, isConfigured, records }) => [
    id,
    isConfigured ? "yes" : "NO",
    `${records}`,
  ]);
  terminal.answer(reports, options, () =>
    formatTable(terminal, ["KEK", "CONFIGURED", "RECORDS"], rows),
  );
  Session.requireAllOpen(store);
  if (retire !== undefined) requireRetirable(retire, reports);
}

/** Requires that no record needs a KEK. @param reports The first one is about the KEK that seals new records. */
function requireRetirable(id: string, reports: Awaited<ReturnType<typeof reportKeks>>): void {
  const report = reports.find((each) => each.id === id);
  if (!report) throw new OperatorError(`no KEK ${id} is configured, and no record uses one`);
  if (report === reports[0]) throw new OperatorError(`${id} is the KEK that seals new records`);
  if (report.records === 0) return;
  throw new OperatorError(
    `${id} still seals records (${report.records}): put another KEK first, and the next cron run seals them anew`,
    { exitCode: exitCodes.attention },
  );
}

/** Counts the records that each KEK seals, and says whether it is configured. */
async function reportKeks({ mint }: Session) {
  const sealedWith = (await mint.store.load()).map(({ value }) => kekOf(value));
  const configured = mint.keks.map(({ id }) => id);
  return [...new Set([...configured, ...sealedWith])].map((id) => ({
    id,
    isConfigured: configured.includes(id),
    records: sealedWith.filter((each) => each === id).length,
  }));
}

/** The id of the KEK that a record names. Only a record that opens proves it. */
function kekOf(value: string): string {
  const { kek = "(unreadable)" } = Object(jsonIn(value)) as { readonly kek?: unknown };
  return String(kek);
}
