import { Command } from "commander";
import { Denial } from "../../ca/denial.ts";
import { Mint } from "../../ca/mint.ts";
import type { OpenedStore } from "../../ca/opened-store.ts";
import { deniableSubject, isShownByToken } from "../../config/distrust.ts";
import { type DenialContent, statementKinds } from "../../custody/record-kinds.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { Duration, instant } from "../../foundation/text.ts";
import { TrustDomain } from "../../pki/spiffe-id.ts";
import { addSeconds, wholeSeconds } from "../../pki/x509/validity.ts";
import { DenialStatus, Distrust } from "../../status/distrust.ts";
import { Session, type SessionOptions } from "../session/session.ts";
import {
  addPlaceChangeOptions,
  addPlaceOptions,
  requireWhy,
  usageError,
} from "../terminal/command-line.ts";
import { formatTable } from "../terminal/table.ts";
import type { Screen, Terminal } from "../terminal/terminal.ts";
import { configuredAnyway, formatInstant, printable } from "../terminal/text.ts";

interface AddOptions extends SessionOptions {
  readonly until?: string;
  readonly why?: string;
}

/** The most denials that a store takes: many more authorities and taints must fit beside them. */
const maximumDenials = 200;

/** `rampart deny …`: lists, adds and removes denials, whose subjects get no certificates. */
export function denyCommand(terminal: Terminal): Command {
  const deny = new Command("deny").description("whom the CA gives no certificate");
  addPlaceOptions(deny.command("list"))
    .description("list every denial, of the store and of the configuration")
    .option("--json", "print JSON")
    .action(Session.action(terminal, list));
  addPlaceChangeOptions(deny.command("add"))
    .argument("<subject>", Denial.forms)
    .description("give no certificate, by token, certificate, node proxy or gateway")
    .option(
      "--until <time>",
      "the end: an instant in RFC 3339, or a duration from now, such as 12h",
    )
    .option("--why <sentence>", "a note for other operators")
    .option("-y, --yes", "do not ask for confirmation")
    .action(Session.action(terminal, add));
  addPlaceChangeOptions(deny.command("remove"))
    .argument("<subject>", "as `deny list` shows it")
    .description("remove every denial of a subject from the store")
    .option("-y, --yes", "do not ask for confirmation")
    .action(Session.action(terminal, remove));
  return deny;
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  const store = await Session.open(session);
  const denials = denialsIn(session, store);
  Session.answerList(session, store, denials, options, () =>
    formatDenials(session.terminal, denials, "Nobody is denied certificates."),
  );
}

const denialsIn = (
  { configuration, now }: Session,
  { denials }: OpenedStore,
): readonly DenialStatus[] => DenialStatus.all(denials, configuration.configuredDenials, now);

/**
 * Denies a subject after a confirmation. If it is denied for as long already, nothing is written.
 * @throws OperatorError for a subject that cannot be denied, without the confirmation, and for more than 200 denials.
 */
export async function add(session: Session, typed: string, options: AddOptions): Promise<void> {
  const { terminal, mint, isDry } = session;
  const subject = subjectOf(session, typed);
  const asked = denialOf(session, subject, options, session.now);
  const { denials } = await Session.openToWrite(session);
  const standing = denials.find(
    (each) => each.subject === subject && !Distrust.endsLater(asked, each),
  );
  if (standing) {
    return terminal.print(
      `${subject} is denied already ${endOf(standing)}: nothing was written. To end that sooner, remove the denial first.`,
    );
  }
  if (denials.length >= maximumDenials) {
    throw new OperatorError(
      `the store holds ${denials.length} denials already: remove some, or deny a pattern`,
    );
  }
  await Session.confirm(session, `Give ${subject} no certificate ${endOf(asked)}?`);
  // Made after the confirmation, which may take long: `knownFrom` is computed from the time of the write.
  const denial = denialOf(session, subject, options, terminal.clock());
  await Mint.storeStatement(mint, "denial", denial);
  mint.log.operation({
    event: "denial-added",
    level: "warning",
    detail: "an operator denies certificates",
    subject,
    ...(denial.until && { until: denial.until.toISOString() }),
  });
  const knownBy = Mint.knownFrom(mint, terminal.clock());
  await printStored(session);
  if (isDry) return;
  terminal.print(
    `\nEvery process of the CA knows of it by ${knownBy.toISOString()}. Certificates that are out already remain valid.`,
  );
  const entries = [...session.configuration.configuredDenials, denial].map(formatDenied);
  terminal.print(configuredAnyway("denial", "DENIED", entries));
}

const endOf = ({ until }: DenialContent): string =>
  until ? `until ${formatInstant(until)}` : "until you remove the denial";

/** Makes the denial. @param now When it is written. */
function denialOf(
  { mint }: Session,
  subject: string,
  { until, why }: AddOptions,
  now: Date,
): DenialContent {
  requireWhy(why);
  const end = until === undefined ? undefined : parseEnd(until, now);
  return { subject, knownFrom: Mint.knownFrom(mint, now), until: end, why };
}

/**
 * Parses a subject by which the CA can recognise callers, into the form that it compares.
 * @throws OperatorError for any other.
 */
function subjectOf({ configuration }: Session, typed: string): string {
  if (!Denial.parse({ subject: typed, knownFrom: new Date(0) })) {
    throw usageError(
      `${JSON.stringify(typed)} is none of ${Denial.forms}${TrustDomain.hint(typed)}`,
    );
  }
  const read = deniableSubject(typed, configuration);
  if ("fault" in read) throw new OperatorError(read.fault);
  return read.subject;
}

function parseEnd(text: string, now: Date): Date {
  const duration = Duration.seconds.safeParse(text);
  const end = duration.success ? addSeconds(now, duration.data) : instant.safeParse(text).data;
  if (end && end > now) return wholeSeconds(end);
  throw usageError(
    `--until ${JSON.stringify(text)} is neither a duration, such as 12h, nor an instant to come, such as 2027-01-31T12:00:00Z`,
  );
}

/**
 * Removes a subject's denials from the store after a confirmation. One in the configuration stays in force, and a line
 * says so.
 * @throws OperatorError if the store has none.
 */
export async function remove(session: Session, typed: string): Promise<void> {
  const { terminal, mint, configuration } = session;
  const { denials } = await Session.openToWrite(session);
  const read = deniableSubject(typed, configuration);
  const isAlias = "subject" in read && !denials.some((each) => each.subject === typed);
  const subject = isAlias ? read.subject : typed;
  const found = denials.filter((each) => each.subject === subject);
  const isConfigured = configuration.configuredDenials.some((each) => each.subject === subject);
  if (found.length === 0) {
    const where = isConfigured ? "only DENIED of the configuration denies" : "nothing denies";
    throw new OperatorError(`${where} ${JSON.stringify(subject)}: see \`rampart deny list\``);
  }
  await Session.confirm(session, `Give ${subject} certificates again?`);
  for (const denial of found)
    await mint.store.delete({ kind: "denial", id: statementKinds.denial.idOf(denial) });
  const detail = "an operator removed a denial";
  mint.log.operation({ event: "denial-removed", level: "warning", detail, subject });
  await printStored(session);
  if (isConfigured) terminal.print(`DENIED of the configuration still denies ${subject}.`);
}

async function printStored(session: Session): Promise<void> {
  const { terminal, isDry, place } = session;
  terminal.print(
    isDry ? `Nothing was written. Otherwise the ${place} would deny:` : `Denied in the ${place}:`,
  );
  terminal.print(
    formatDenials(terminal, denialsIn(session, await Session.open(session)), "nobody"),
  );
}

/** Formats denials as a table; `ifNone` if there are none. */
export function formatDenials(
  screen: Screen,
  denials: readonly DenialStatus[],
  ifNone: string,
): string {
  if (denials.length === 0) return ifNone;
  const rows = denials.map(({ subject, stated, until, hasEnded, why }) => [
    printable(subject),
    stated,
    until === undefined ? "it is removed" : `${formatInstant(until)}${hasEnded ? ", over" : ""}`,
    printable(why ?? ""),
  ]);
  return formatTable(screen, ["SUBJECT", "STATED IN", "UNTIL", "WHY"], rows, ["WHY"]);
}

/** Formats a denial as an entry of `DENIED`, in TOML. */
export function formatDenied(denial: DenialContent): string {
  const { subject, knownFrom, until, why } = denial;
  const read = Denial.parse(denial);
  const members = [
    `subject = ${JSON.stringify(subject)}`,
    ...(read && isShownByToken(read) ? [`since = "${knownFrom.toISOString()}"`] : []),
    ...(until ? [`until = "${until.toISOString()}"`] : []),
    ...(why === undefined ? [] : [`why = ${JSON.stringify(why)}`]),
  ];
  return `{ ${members.join(", ")} }`;
}
