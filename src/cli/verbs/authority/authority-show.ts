import type { Command } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { type Bytes, fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { toPem } from "../../../pki/encoding/pem.ts";
import { parseCertificate } from "../../../pki/x509/certificate.ts";
import { displayedName } from "../../../pki/x509/distinguished-name.ts";
import { type AuthorityStatus, authoritiesIn } from "../../../status/authorities.ts";
import {
  openStore,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant } from "../../terminal/text.ts";
import { findByIdPrefix } from "./id-prefix.ts";

/** `rampart authority show`. */
export function addShow(command: Command, terminal: Terminal): void {
  command
    .argument("<id>", "the id as `list` shows it, or its first 4 characters or more")
    .description("show one authority or additional root, with its certificates as PEM")
    .option("--json", "print JSON")
    .action((id: string, options: SessionOptions) =>
      withSession(terminal, options, (s) => show(s, id, options)),
    );
}

/** A certificate of an authority, as `openssl x509 -subject -fingerprint -sha256` would show it. */
interface ShownCertificate {
  readonly role: "authority" | "intermediate" | "root";
  readonly subject: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** SHA-256 in hexadecimal. */
  readonly sha256: string;
  readonly pem: string;
}

async function show(session: Session, prefix: string, { json }: SessionOptions): Promise<void> {
  const store = await openStore(session);
  const report = findByIdPrefix(authoritiesIn(store, session.now), prefix, "authority");
  const authority = store.issuers.find((each) => each.authority.id === report.id)?.authority;
  const root = store.additionalRoots.find(({ id }) => id === report.id);
  const certificates = [
    ...(authority ? [shown("authority", authority.certificate.der)] : []),
    ...(authority?.intermediates.slice(1) ?? []).map((der) => shown("intermediate", der)),
    ...rootsOf(authority, root).map((der) => shown("root", der)),
  ];
  if (certificates.length === 0) throw new OperatorError(`the record ${report.id} does not open`);
  const shownReport = { ...report, certificates };
  session.terminal.print(json ? JSON.stringify(shownReport, undefined, 2) : format(shownReport));
}

interface Rooted {
  readonly roots: readonly Bytes[];
  readonly intermediates: readonly Bytes[];
}

/** A self-signed authority is its own root, and is shown once. */
function rootsOf(
  authority: Rooted | undefined,
  root: { readonly roots: readonly Bytes[] } | undefined,
): readonly Bytes[] {
  if (authority) return authority.intermediates.length > 0 ? authority.roots : [];
  return root?.roots ?? [];
}

function shown(role: ShownCertificate["role"], der: Bytes): ShownCertificate {
  const { subject, validity } = parseCertificate(der).toBeSigned;
  return {
    role,
    subject: displayedName(subject),
    ...validity,
    sha256: fingerprintOf(der),
    pem: toPem("CERTIFICATE", der),
  };
}

function format({
  certificates,
  ...report
}: AuthorityStatus & { readonly certificates: readonly ShownCertificate[] }): string {
  const { id, kind, phase, isTainted, signs, key, schedule } = report;
  const lines: readonly [string, string | undefined][] = [
    ["id", id],
    ["kind", kind],
    ["phase", `${phase}${signs ? ", signs now" : ""}${isTainted ? ", tainted" : ""}`],
    ["key", key],
    ["published", formatInstant(schedule.publishedFrom)],
    ["signs from", key && formatInstant(schedule.signsFrom)],
    ["signs until", key && formatInstant(schedule.signsUntil)],
    ["leaves bundle", formatInstant(schedule.retiresAt)],
  ];
  const facts = lines.flatMap(([name, value]) => (value ? [`${name.padEnd(14)}${value}`] : []));
  return [facts.join("\n"), ...certificates.map(formatCertificate)].join("\n\n");
}

const formatCertificate = (each: ShownCertificate): string =>
  [
    `# ${each.role}: ${each.subject}`,
    `# valid from ${formatInstant(each.notBefore)} until ${formatInstant(each.notAfter)}`,
    `# SHA-256 ${each.sha256}`,
    each.pem.trim(),
  ].join("\n");
