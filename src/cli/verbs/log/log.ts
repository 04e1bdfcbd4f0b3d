import { Command, Option } from "commander";
import * as z from "zod/mini";
import { PublishedCrls } from "../../../ca/revocation/published-crls.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import { Distrust } from "../../../status/distrust.ts";
import { LogError } from "../../../tlog/log-error.ts";
import type { DeploymentChoice } from "../../session/deployment.ts";
import { Session } from "../../session/session.ts";
import {
  addExitCodes,
  addPlaceOptions,
  typedAs,
  typedInstant,
  typedInterval,
  typedNumber,
  usageError,
} from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import {
  type Distrusted,
  entryAsJson,
  foreignSerialNumber,
  formatEntries,
  type IndexedEntry,
  type SearchFields,
  searchFieldsIn,
} from "./entry.ts";
import { ocsfVersion } from "./export/exported-event.ts";
import { type FollowOptions, follow } from "./follow.ts";
import { type FollowerOptions, openFollower, synchronize, verifyAnew } from "./follower.ts";
import { addLogExitCodes, judgingLog, requireCluster } from "./log-source.ts";
import { chosenEntry, proveEntry, type VerifyOptions, verify } from "./proofs.ts";
import { type DeletableOptions, deletable } from "./retention.ts";

interface ListOptions extends FollowerOptions, DeploymentChoice {
  readonly local?: boolean;
  readonly limit: number;
}

interface SearchOptions extends ListOptions, SearchFields {}

const absent = "The certificate is not in the log.";

/** `rampart log …`: searches, verifies, follows and exports the issuance log. */
export function logCommand(terminal: Terminal): Command {
  const log = new Command("log").description(
    "the issuance log: who got which certificate, provably",
  );
  addListOptions(addLogExitCodes(log.command("tail")))
    .description("show the newest entries")
    .action((options: ListOptions) => judgingLog(() => list(terminal, options, {})));
  addSearchOptions(addListOptions(addLogExitCodes(log.command("search"))), terminal)
    .description("find entries; every option narrows the search")
    .action((options: SearchOptions) =>
      judgingLog(() => list(terminal, options, searchFieldsIn(options) ?? {})),
    );
  addLogOptions(addLogExitCodes(log.command("prove"), { attention: absent }))
    .argument("<serial|certificate>", "a serial number, or a file with the certificate")
    .description("print the proof that the log has a certificate, a .tlog-proof")
    .action((choice: string, options: FollowerOptions) =>
      judgingLog(() => prove(terminal, choice, options)),
    );
  addLogOptions(addLogExitCodes(log.command("verify"), { attention: absent }))
    .argument("<certificate>", "a file with the certificate that was seen")
    .argument("[proof]", "its .tlog-proof; then no connection is needed, but --policy or --key")
    .description("tell whether the log has a certificate: if not, its authority's key is stolen")
    .option("--authorities <file>", "PEM of the authorities; without it, those that the log has")
    .option("--json", "print JSON")
    .action((certificate: string, proof: string | undefined, options: VerifyOptions) =>
      judgingLog(() => verify(terminal, certificate, proof, options)),
    );
  addFollow(log.command("follow"), terminal);
  addLogOptions(addLogExitCodes(log.command("check")))
    .description("read the whole log anew, and verify every entry, tile and signature")
    .action((options: FollowerOptions) => judgingLog(() => check(terminal, options)));
  addLogOptions(addLogExitCodes(log.command("deletable")))
    .description("print the old entries that a copy has, and that the log itself need not keep")
    .requiredOption(
      "--before <time>",
      "entries before this instant, or older than this",
      typedInstant(terminal.clock),
    )
    .addHelpText("after", deletableHelp)
    .action((options: DeletableOptions) => judgingLog(() => deletable(terminal, options)));
  return log;
}

const deletableHelp = `
It prints paths below the prefix of the shard, and deletes nothing. Tiles of hashes and checkpoints
are not among them: the log goes on. Of deleted entries, only copies that have them can search,
prove, verify, replay and export: give --dir to all verbs. A reader without one ends with 4.`;

const exportHelp = `
The url of all shards, such as https://ca.example.com/log, has a copy for each below --dir.

--to writes each entry once, in the order of its shard, and goes on after a crash where it was:
  FILE  lines of JSON. FILE.state beside it has the positions. A torn line is completed, also
        in a file that was renamed since.
  -     lines of JSON, between the findings. The last 500 may come again after a crash.
  URL   requests of OTLP/HTTP in JSON, to URL/v1/logs. The last one, of up to 500 events, may
        come again after a crash, with the same log.record.uid. OTEL_EXPORTER_OTLP_HEADERS and
        OTEL_EXPORTER_OTLP_CERTIFICATE hold. A collector that does not answer, or answers 429,
        502, 503 or 504, is asked again: for a minute without --every.
--audit reads whole lines from the beginning of FILE, and goes on through rotations to names
that have . or - and more behind FILE. What is deleted or compressed unread is said to be gone.`;

function addFollow(command: Command, terminal: Terminal): void {
  const following = addExitCodes(command, {
    attention: "Without --every: there are findings.",
    broken: "The log contradicts itself or what is known of it.",
  });
  addLogOptions(following)
    .description("copy what is new into --dir, verify it, and print findings as lines of JSON")
    .option("--authorities <file>", "PEM of every authority that you know; others are findings")
    .option("--config <file>", "a configuration whose ISSUERS say who may vouch for whom")
    .option(
      "--identities-per-node <number>",
      "the most identities in a day",
      typedNumber(9_999_999),
      500,
    )
    .option(
      "--others-per-node <number>",
      "the most identities of other nodes in a day",
      typedNumber(9_999_999),
      3,
    )
    .addOption(
      new Option("--stale-after <duration>", "how long nothing may be new")
        .argParser(typedInterval)
        .default(86_400, "24h"),
    )
    .option(
      "--to <place>",
      "write what is new: - for the standard output, a file, a collector's URL",
    )
    .option("--ocsf", `write it as events of OCSF ${ocsfVersion}`)
    .option("--audit <file>", "write refusals too: the file of the CA's audit trail")
    .option("--every <duration>", "go on, and look this often", typedInterval)
    .addHelpText("after", exportHelp)
    .action((options: FollowOptions) => follow(terminal, options));
}

/** Adds the options by which entries are searched. */
export function addSearchOptions(command: Command, terminal: Terminal): Command {
  return command
    .option("--spiffe-id <id>", "the whole name of the certificate", spiffeId)
    .option("--namespace <glob>", "the namespace in its name", namespace)
    .option("--account <glob>", "the account in its name", account)
    .option("--serial <number>", "the serial number, in any spelling", serialNumber)
    .option("--cluster <name>", "the cluster of the caller", cluster)
    .option("--node <name>", "the node that the caller's token or a signer names", node)
    .option("--pod <name|uid>", "the pod that the caller's token or a signer names", pod)
    .option("--issuer <url>", "the issuer of the caller's token")
    .option("--subject <glob>", "the sub of a token that is no ServiceAccount's")
    .option("--claim <name=glob>", "a recorded claim of such a token", claim)
    .option("--token-id <jti>", "the id of the caller's token", (text) => text.replace(/^JTI=/, ""))
    .option(
      "--since <time>",
      "from this instant on, or this long ago",
      typedInstant(terminal.clock),
    )
    .option(
      "--until <time>",
      "before this instant, or this long ago",
      typedInstant(terminal.clock),
    );
}

/** Adds the options that say which log is read and how it is verified. */
export function addLogOptions(command: Command): Command {
  return command
    .option("--url <url>", "the log's prefix, such as https://ca.example.com/log/0")
    .option("--dir <folder>", "a verified copy on this machine, which `follow` keeps")
    .option("--key <vkey>", "the log's verifier key; without it, that of the first visit counts")
    .option("--policy <file>", "a tlog-policy: keys of logs, witnesses and their quorum")
    .option("--ca <file>", "PEM of the roots that authenticate the server");
}

const statedHelp = `
With --config, --env, --remote or --local, the store of that CA says which are revoked or denied.`;

function addListOptions(command: Command): Command {
  return addPlaceOptions(addLogOptions(command))
    .addHelpText("after", statedHelp)
    .option("-n, --limit <number>", "the most entries", typedNumber(9_999_999), 20)
    .option("--json", "print one line of JSON for each entry");
}

/**
 * Makes the parser of a search value. It refuses what no certificate can have, because finding nothing would look like
 * an answer.
 */
const searched = (form: RegExp, fault: string) => typedAs(z.string().check(z.regex(form)), fault);

const spiffeId = searched(
  /^spiffe:\/\/[a-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$|^DNS:/,
  "must be a whole SPIFFE ID; --namespace and --account take globs",
);
const namespace = searched(/^[a-z0-9*-]{1,63}$/, "must be a namespace, or a glob such as team-*");
const account = searched(/^[a-z0-9.*-]{1,253}$/, "must be an account, or a glob");
const cluster = searched(/^[A-Za-z0-9._/-]{1,253}$/, "must be the whole name of a cluster");
const node = searched(/^[a-z0-9.-]{1,253}$/, "must be the whole name of a node");
const pod = searched(/^[A-Za-z0-9.-]{1,253}$/, "must be the whole name or the UID of a pod");
const claim = searched(
  /^[^=]+=.+$/,
  "must be a recorded claim and a glob, such as repository_id=74",
);
const serialNumber = typedAs(
  z.pipe(
    z.string().check(z.refine(SerialNumber.mayBe)),
    z.transform((text) => SerialNumber.shown(SerialNumber.typed(text))),
  ),
  "must be two hexadecimal digits or more, with or without colons",
);

async function list(terminal: Terminal, options: ListOptions, fields: SearchFields): Promise<void> {
  const { since = "", until = "9", serial } = fields;
  if (since >= until) throw usageError("--since must be before --until");
  using follower = await openFollower(terminal, options);
  await synchronize(follower);
  requireCluster([follower.index], fields.cluster);
  const found = follower.index.search(fields, options.limit);
  const foreign = serial && found.length === 0 && foreignSerialNumber(serial);
  if (foreign) throw usageError(`--serial: no entry has ${serial}, and ${foreign}`);
  const distrusted = await distrustIn(terminal, options, found);
  if (options.json) {
    for (const entry of found.toReversed()) terminal.print(entryAsJson(entry, distrusted));
    return;
  }
  terminal.print(formatEntries(terminal, found, distrusted));
  if (!distrusted)
    terminal.notice("rampart: --config names the CA that knows what is revoked or denied");
  if (found.length === options.limit)
    terminal.notice(`rampart: the newest ${options.limit}; see -n`);
}

/** Finds which entries the chosen CA has revoked or denied; `undefined` if no CA is chosen. */
async function distrustIn(
  terminal: Terminal,
  options: ListOptions,
  entries: readonly IndexedEntry[],
): Promise<Distrusted | undefined> {
  const { config, env, remote, local } = options;
  if ([config, env, remote, local].every((each) => each === undefined)) return undefined;
  const distrusted = new Map<number, Distrust>();
  await Session.use(terminal, options, async ({ configuration, currentView, now }) => {
    const view = await currentView();
    if (!view) throw new OperatorError("the store of authorities cannot be read");
    const statements = {
      authorities: PublishedCrls.issuersIn(view).map(({ authority }) => authority),
      revocations: [...view.revocations, ...configuration.configuredRevocations],
      denials: [...view.denials, ...configuration.configuredDenials],
    };
    for (const { idx, octets } of entries) {
      const found = Distrust.of(octets, statements, now);
      if (found) distrusted.set(idx, found);
    }
  });
  return distrusted;
}

async function prove(terminal: Terminal, choice: string, options: FollowerOptions): Promise<void> {
  using follower = await openFollower(terminal, options);
  await synchronize(follower);
  const proof = await proveEntry(follower, await chosenEntry(follower, choice));
  terminal.print(proof.trimEnd());
}

async function check(terminal: Terminal, options: FollowerOptions): Promise<void> {
  using follower = await openFollower(terminal, options);
  const isKnown = follower.index.state() !== undefined;
  const accepted = await synchronize(follower);
  // Only the new entries were verified, so the whole log is read again.
  if (isKnown) await verifyAnew(follower, accepted);
  const { checkpoint, cosigned } = accepted;
  const { isQuorum } = follower.policy;
  const witnesses = [...cosigned.keys()];
  if (!isQuorum(new Set(witnesses))) throw new LogError("quorum", "too few witnesses cosigned");
  const by = witnesses.length > 0 ? `, cosigned by ${witnesses.join(", ")}` : "";
  terminal.print(`${checkpoint.origin}: ${checkpoint.size} entries, all of them verified${by}`);
}
