import { Command, Option } from "commander";
import { RevocationReason } from "../../../pki/x509/crl/crl-to-be-signed.ts";
import { RevokedStatus } from "../../../status/distrust.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import {
  addChangeOptions,
  addDeploymentOptions,
  addExitCodes,
} from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen, Terminal } from "../../terminal/terminal.ts";
import { formatInstant, printable } from "../../terminal/text.ts";
import { addLogOptions, addSearchOptions } from "../log/log.ts";
import { addLogExitCodes, judgingLog } from "../log/log-source.ts";
import { type InspectOptions, inspectSource } from "./inspect.ts";
import { type RequestOptions, request } from "./request.ts";
import { type RevokeOptions, requireMainStore, revoke } from "./revoke.ts";

/** `rampart certificate …`: gets, inspects, lists and revokes certificates. */
export function certificateCommand(terminal: Terminal): Command {
  const certificate = new Command("certificate").description(
    "certificates: get one, look at it, list what was taken back, take it back",
  );
  certificate
    .command("request")
    .description("get a certificate for a new key, as a workload does")
    .requiredOption("--url <url>", "the CA, such as https://ca.example.com")
    .requiredOption(
      "--token-file <file>",
      "the token of the workload, such as that of its ServiceAccount",
    )
    .requiredOption("--out <folder>", "where key.pem, cert-chain.pem and root-cert.pem are written")
    .option("--trust-domain <name>", "the trust domain of the CA", "cluster.local")
    .option("--ca <file>", "the roots of the server's own certificate, instead of the system's")
    .option("--json", "print JSON")
    .action((options: RequestOptions) => request(terminal, options));
  addExitCodes(certificate.command("inspect"), { attention: "Something is wrong with it." })
    .description("show certificates, requests, CRLs or a SPIFFE bundle, and what is wrong")
    .argument("<source>", "a file, a URL, or - for the standard input")
    .option("--ca <file>", "the roots of the server's own certificate, instead of the system's")
    .option("--json", "print JSON")
    .action((source: string, options: InspectOptions) => inspectSource(terminal, source, options));
  addDeploymentOptions(certificate.command("revoked"))
    .description("list the revoked certificates that have not long expired")
    .option("--json", "print JSON")
    .action(Session.action(terminal, list));
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
        .choices(Object.keys(RevocationReason.codes))
        .default("unspecified"),
    )
    .option("--why <sentence>", "a note for other operators")
    .option("-y, --yes", "do not ask for confirmation")
    .action((choices: readonly string[], options: RevokeOptions) =>
      judgingLog(() => Session.use(terminal, options, (s) => revoke(s, choices, options))),
    );
  return certificate;
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  requireMainStore(options);
  const store = await Session.open(session);
  const reports = RevokedStatus.all(store.revocations, session.configuration.configuredRevocations);
  Session.answerList(session, store, reports, options, () =>
    formatRevocations(session.terminal, reports),
  );
}

/** Formats revoked certificates as a table, or says that there are none. */
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
