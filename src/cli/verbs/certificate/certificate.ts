import { Command, Option } from "commander";
import { reasonCodes } from "../../../pki/x509/crl/crl-to-be-signed.ts";
import { type RevokedStatus, revokedStatuses } from "../../../status/distrust.ts";
import {
  answerList,
  inSession,
  openStore,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { addChangeOptions, addDeploymentOptions } from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen, Terminal } from "../../terminal/terminal.ts";
import { formatInstant, printable } from "../../terminal/text.ts";
import { addLogOptions, addSearchOptions } from "../log/log.ts";
import { addLogExitCodes, judgingLog } from "../log/log-source.ts";
import { type RevokeOptions, requireMainStore, revoke } from "./revoke.ts";

/** `rampart certificate …`: certificates that are out, and taking them back. */
export function certificateCommand(terminal: Terminal): Command {
  const certificate = new Command("certificate").description(
    "certificates that are out, and how to take them back",
  );
  addDeploymentOptions(certificate.command("revoked"))
    .description("list the revoked certificates that have not long expired")
    .option("--json", "print JSON")
    .action(inSession(terminal, list));
  const revocation = addSearchOptions(
    addLogOptions(addChangeOptions(certificate.command("revoke"))),
    terminal,
  );
  addLogExitCodes(revocation, { attention: "A chosen certificate is not in the log." })
    .argument("[serial|certificate...]", "serial numbers, and files with certificates")
    .description("put certificates on the CRLs of their authorities, for good")
    .option("--with-renewals", "also those that were issued to who showed a chosen one")
    .option(
      "--authority <id>",
      "the signer of a serial number without a log, or the begin of its id",
    )
    .option("--expires-at <time>", "the end of a serial number's certificate, if known")
    .addOption(
      new Option("--reason <reason>", "why, for verifiers (RFC 5280 §5.3.1)")
        .choices(Object.keys(reasonCodes))
        .default("unspecified"),
    )
    .option("--why <sentence>", "a note for other operators")
    .option("-y, --yes", "do not ask for confirmation")
    .action((choices: readonly string[], options: RevokeOptions) =>
      judgingLog(() => withSession(terminal, options, (s) => revoke(s, choices, options))),
    );
  return certificate;
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  requireMainStore(options);
  const store = await openStore(session);
  const reports = revokedStatuses(store.revocations, session.configuration.configuredRevocations);
  answerList(session, store, reports, options, () => formatRevocations(session.terminal, reports));
}

export function formatRevocations(screen: Screen, revoked: readonly RevokedStatus[]): string {
  if (revoked.length === 0) return "No certificate is revoked.";
  const rows = revoked.map(({ serial, authority, revokedAt, expiresAt, reason, stated, why }) => [
    serial,
    authority.slice(0, 8),
    formatInstant(revokedAt),
    formatInstant(expiresAt),
    reason,
    stated,
    printable(why ?? ""),
  ]);
  return formatTable(
    screen,
    ["SERIAL", "AUTHORITY", "REVOKED", "EXPIRES", "REASON", "STATED IN", "WHY"],
    rows,
    ["WHY", "STATED IN"],
  );
}
