import { Caller } from "../../authn/caller.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { Hex } from "../../pki/encoding/bytes.ts";
import { Hash } from "../../tlog/merkle.ts";
import type { AuthorityView } from "../authority-view.ts";
import {
  type AppendOnlyLog,
  IssuanceLog,
  type Issued,
  type IssuedToCaller,
  type LoggedAuthority,
  type Recording,
} from "./issuance-log.ts";
import { type CertificateEntry, LogEntry } from "./log-entry.ts";

/**
 * Creates the log that records what a CA issues: it appends the entry of each certificate and token, after those of
 * its authorities.
 */
export const recordingIn = (log: AppendOnlyLog): IssuanceLog => ({
  ...log,
  record: (issued, recording) => record(log, entryOf(issued), recording),
});

async function record(
  { mode, append }: AppendOnlyLog,
  entry: LogEntry,
  { view, signal, audit }: Recording,
): Promise<void> {
  const octets = LogEntry.format(entry);
  try {
    const { origin, index } = await append(octets, signal, authoritiesOf(view, entry.at));
    audit.log = origin;
    audit.logIndex = index;
  } catch (error) {
    audit.log = "unlogged";
    if (mode === "required") throw IssuanceLog.toUnavailable(error);
    audit.logEntry = Base64.format(octets);
  }
}

const authoritiesOfViews = new WeakMap<AuthorityView, readonly LoggedAuthority[]>();

/**
 * The entries of every CA certificate that the mesh trusts or that signs. So a CA certificate that was put into the
 * store is visible in the log, even if it never signs a leaf.
 */
function authoritiesOf(view: AuthorityView, at: string): readonly LoggedAuthority[] {
  const known = authoritiesOfViews.get(view);
  if (known) return known;
  const { trustBundle, issuer } = view;
  const certificates = [...trustBundle.roots, ...(issuer?.authority.intermediates ?? [])];
  const entries = certificates.map((certificate) => ({
    name: Hex.format(Hash.ofLeaf(certificate)),
    entry: LogEntry.format({ kind: "certificate", certificate, at, proof: "authority" }),
  }));
  authoritiesOfViews.set(view, entries);
  return entries;
}

function entryOf(issued: Issued): LogEntry {
  if (!("caller" in issued)) {
    const { certificate, at } = issued;
    return { kind: "certificate", certificate, at: at.toISOString(), proof: "own" };
  }
  const circumstances = { ...circumstancesOf(issued), ...issued.evidence };
  return "token" in issued
    ? { kind: "token", ...circumstances, token: issued.token }
    : { kind: "certificate", certificate: issued.certificate, ...circumstances };
}

/** The circumstances of an issuance, as a log entry records them. */
function circumstancesOf({
  caller,
  at,
  spiffeId,
  signer,
  holder,
}: IssuedToCaller): Omit<CertificateEntry, "kind" | "certificate"> {
  const { gateway, certificate: shown } = caller;
  const { pod, node, tokenId = caller.tokenId } = holder ?? caller;
  const isForItself = spiffeId === caller.spiffeId && holder === caller;
  const issuer = caller.issuer ?? caller.provedBy;
  return {
    at: at.toISOString(),
    proof: Caller.proofKindOf(caller),
    cluster: issuer?.cluster,
    issuer: issuer?.name,
    callerSerialNumber: shown?.serialNumber,
    callerAuthority: shown?.authority,
    provedAt: shown && caller.proof.provedAt.toISOString(),
    impersonator: isForItself ? undefined : caller.spiffeId,
    gateway: gateway?.spiffeId,
    signer,
    pod,
    node,
    tokenId,
    tokenSubject:
      caller.tokenSubject ?? (shown && Caller.hidesTokenSubject(caller) ? "unknown" : undefined),
  };
}
