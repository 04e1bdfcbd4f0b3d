import type { Command } from "commander";
import { Option } from "commander";
import { RequestedIntermediate } from "../../../ca/rotation/intermediate-request.ts";
import { createServiceRoot } from "../../../custody/key-service/operators-keys.ts";
import type { AuthorityRequest } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { Pem } from "../../../pki/encoding/pem.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { ofKeyService, openKeyServices } from "../../session/stores.ts";
import { typedSeconds, usageError } from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen, Terminal } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import { findByIdPrefix } from "./requirements.ts";
import { backupStep } from "./store-summary.ts";

/** Adds `authority request`. */
export function addRequest(command: Command, terminal: Terminal): void {
  command
    .description(
      "make a key, seal it, and print a CSR for an intermediate, which your own CA signs; `install` takes its answer",
    )
    .action(Session.action(terminal, request));
}

/** Adds `authority requests`. */
export function addRequests(command: Command, terminal: Terminal): void {
  command
    .description("list the requests that have no answer yet, with their age")
    .option("--json", "print JSON, with each CSR")
    .action(Session.action(terminal, list));
}

/** Makes this command `authority withdraw`. */
export function addWithdraw(command: Command, terminal: Terminal): void {
  command
    .argument("<id>", "the request's id as `requests` shows it, or its first 4 characters or more")
    .description("delete a request with its key; a certificate for it can never be installed")
    .option("-y, --yes", "do not ask for confirmation")
    .action(Session.action(terminal, withdraw));
}

/**
 * Generates a key, seals it into the store, and prints a CSR for an intermediate of another CA; no CSR in a dry run.
 * @throws OperatorError if `AUTHORITY_ROOT` is `self`, and for records that do not open.
 */
export async function request(session: Session): Promise<void> {
  const { terminal, mint, now, isDry, place } = session;
  if (mint.authorityRoot === "self") {
    throw new OperatorError(
      'AUTHORITY_ROOT is self, so that the next authority would be its own root: set AUTHORITY_ROOT = "offline" first',
    );
  }
  Session.requireAllOpen(await Session.open(session));
  const { id, csr } = await RequestedIntermediate.request(mint, now);
  if (isDry) {
    terminal.print(`Nothing was written. The ${place} would hold a request with a key of its own.`);
    return;
  }
  terminal.print(Pem.format("CERTIFICATE REQUEST", csr).trimEnd());
  terminal.noticeNext([
    [
      "rampart authority install chain.pem",
      `takes what your CA makes of request ${shortId(id)}: an intermediate, and what is between it and its root`,
    ],
    backupStep,
  ]);
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  const store = await Session.open(session);
  const { terminal, now } = session;
  const open = store.requests.toSorted((a, b) => a.requestedAt.getTime() - b.requestedAt.getTime());
  terminal.answer(open.map(toJson), options, () =>
    open.length > 0 ? formatRequests(terminal, open, now) : "The store holds no open request.",
  );
  Session.requireAllOpen(store);
}

const toJson = ({ id, requestedAt, csr }: AuthorityRequest) => ({
  id,
  requestedAt,
  csr: Pem.format("CERTIFICATE REQUEST", csr),
});

function formatRequests(screen: Screen, requests: readonly AuthorityRequest[], now: Date): string {
  return formatTable(
    screen,
    ["ID", "KEY", "REQUESTED", "AGE"],
    requests.map(({ id, publicKey, requestedAt }) => [
      shortId(id),
      publicKey.algorithm,
      formatInstant(requestedAt),
      ageText((now.getTime() - requestedAt.getTime()) / 3_600_000),
    ]),
  );
}

const ageText = (hours: number): string =>
  hours < 48 ? `${Math.floor(hours)} h` : `${Math.floor(hours / 24)} days`;

/**
 * Deletes an open request with its key, after a confirmation. A certificate for it can never be installed.
 * @throws OperatorError if no request, or more than one, has the prefix.
 */
export async function withdraw(session: Session, prefix: string): Promise<void> {
  const { terminal, mint, isDry, place } = session;
  const { requests } = await Session.open(session);
  const { id } = findByIdPrefix(requests, prefix, "request");
  const question = `Withdraw ${id} from the ${place}? Its key is gone then, and so is what a certificate for it is worth.`;
  await Session.confirm(session, question);
  await RequestedIntermediate.withdraw(mint, id);
  terminal.print(isDry ? `Nothing was written. ${id} would be withdrawn.` : `${id} is withdrawn.`);
}

interface RootOptions extends SessionOptions {
  readonly lifetime: number;
}

/** Adds `authority root`, which prints the certificate of a root whose key is in a key service. */
export function addRoot(command: Command, terminal: Terminal): void {
  command
    .argument("<key>", "the URI of a key that signs: EC P-256, EC P-384 or RSA")
    .addOption(
      new Option("--lifetime <duration>", "how long the root shall live")
        .argParser(typedSeconds)
        .default(87_600 * 3600, "87600h"),
    )
    .description("print the certificate of a root whose key is in a key service, which signs it")
    .action((key: string, options: RootOptions) => print(terminal, key, options));
}

async function print(
  terminal: Terminal,
  uri: string,
  { lifetime, ...options }: RootOptions,
): Promise<void> {
  if (lifetime < 86_400 || lifetime > 40 * 366 * 86_400)
    throw usageError("--lifetime must be a duration from 24h to 40 years, such as 87600h");
  const { configuration, keyServices } = await openKeyServices(terminal, options);
  const { trustDomain } = configuration;
  const make = async () =>
    createServiceRoot(keyServices(uri), trustDomain, lifetime, terminal.clock());
  const root = await ofKeyService(make());
  terminal.print(Pem.format("CERTIFICATE", root).trimEnd());
  terminal.noticeNext([
    [
      `UPSTREAM_AUTHORITY = { kind = "key-service", keys = ["${uri}"], root = "…" }`,
      `and AUTHORITY_ROOT = "upstream" have this root (SHA-256 ${fingerprintOf(root).slice(0, 16)}…) sign the intermediates`,
    ],
  ]);
}
