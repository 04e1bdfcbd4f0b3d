import type { Command } from "commander";
import { adoptAuthority } from "../../../ca/rotation/adopt.ts";
import { NewIntermediate } from "../../../ca/rotation/install-intermediate.ts";
import { RequestedIntermediate } from "../../../ca/rotation/intermediate-request.ts";
import { Rotation } from "../../../ca/rotation/rotate.ts";
import type { AuthorityRequest } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { Bytes, fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { NextCommand, Terminal } from "../../terminal/terminal.ts";
import { loadSource } from "../import/ca-entries.ts";
import { loadPluggedIn } from "../import/load.ts";
import { type ImportedCertificate, readCertificates } from "../import/pem-files.ts";
import {
  bundleRoots,
  knownAuthority,
  newRootOf,
  otherRootsOf,
  requireNothingNew,
  sortChain,
} from "../import/plugged-in-import.ts";
import {
  logImportWarnings,
  readImportedRoots,
  verifiesTrialLeaf,
  verifyImported,
  verifyPluggedIn,
} from "../import/verify.ts";
import { backupStep, planStep, printStoreSummary } from "./store-summary.ts";

const maximumOctets = 256 * 1024;

interface InstallOptions extends SessionOptions {
  readonly roots?: string;
}

/** Adds `authority install`. */
export function addInstall(command: Command, terminal: Terminal): void {
  command
    .argument(
      "<chain>",
      "PEM: the certificate for an open request, and what is between it and its root",
    )
    .description(
      "take the answer to a request: it is published, and signs once every verifier has its root",
    )
    .option(
      "--roots <file>",
      "PEM of its root, where neither the chain nor the trust bundle has it",
    )
    .option("-y, --yes", "do not ask whether a root that is new to the mesh is to be trusted")
    .action(Session.action(terminal, install));
}

/**
 * Installs the certificate for an open request, and deletes the request. The authority is published at once, and signs
 * once every verifier has its root. A root that is new to the mesh needs a confirmation.
 * @throws OperatorError for records that do not open, and for a chain that answers no open request or does not verify.
 */
export async function install(
  session: Session,
  path: string,
  options: InstallOptions,
): Promise<void> {
  const { terminal, mint, now, log } = session;
  const store = await Session.open(session);
  Session.requireAllOpen(store);
  const chain = readCertificates(await loadSource(path, maximumOctets));
  const roots = options.roots ? [await loadSource(options.roots, maximumOctets)] : [];
  const [request, authority] = answeredRequest(store.requests, chain, path);
  const bundle = bundleRoots(store, now);
  const offered = sortChain(authority, chain, readImportedRoots(roots), bundle);
  const verified = await verifyImported(offered, mint.trustDomain, now);
  const extractablePrivateKey = await RequestedIntermediate.keyOf(mint, request);
  const { certificates } = verified;
  if (!(await verifiesTrialLeaf(certificates, extractablePrivateKey, mint.trustDomain, now))) {
    throw new Error("the key of a request does not sign for its certificate");
  }
  logImportWarnings(verified, log);
  const otherRoots = otherRootsOf(verified, bundle);
  await installChecked(session, { verified, extractablePrivateKey, otherRoots }, bundle);
  // The authority is stored, so the request is not needed any more.
  await mint.store.delete({ kind: "request", id: request.id });
  await printStoreSummary(session);
  if (!session.isDry) terminal.noticeNext([planStep, backupStep]);
}

function answeredRequest(
  requests: readonly AuthorityRequest[],
  chain: readonly ImportedCertificate[],
  path: string,
): readonly [AuthorityRequest, ImportedCertificate] {
  for (const request of requests) {
    const { spki } = request.publicKey;
    const answer = chain.find(({ publicKey }) => Bytes.equal(publicKey.spki, spki));
    if (answer) return [request, answer];
  }
  throw new OperatorError(
    requests.length > 0
      ? `${path}: no certificate in it is for the key of an open request (\`rampart authority requests\`)`
      : "the store holds no open request: make one with `rampart authority request`",
  );
}

/** Installs an intermediate, after a confirmation if its root is new to the mesh. */
async function installChecked(
  session: Session,
  intermediate: NewIntermediate,
  bundle: readonly Bytes[],
): Promise<void> {
  const { verified, otherRoots } = intermediate;
  const own = newRootOf(verified, bundle);
  const added = [...(own ? [own] : []), ...otherRoots];
  if (bundle.length > 0 && added.length > 0) {
    const digests = added.map(fingerprintOf);
    const question = `Trust ${digests.length > 1 ? "these roots" : "this root"}, new to the mesh? SHA-256 ${digests.join(", ")}`;
    await Session.confirm(session, question);
  }
  await NewIntermediate.install(session.mint, intermediate, session.now);
}

/** Adds `authority import`. */
export function addImport(command: Command, terminal: Terminal): void {
  command
    .argument("<source>", "a directory (Istio's cacerts, kubernetes.io/tls) or a Secret's manifest")
    .description(
      "take over the CA of an existing mesh: into an empty store it signs at once; beside other authorities it is published first",
    )
    .option("--roots <file>", "more roots to trust beside it, such as root-cert-combined.pem")
    .option("-y, --yes", "do not ask whether a root that is new to the mesh is to be trusted")
    .action((source: string, options: InstallOptions) =>
      Session.use(terminal, { ...options, mayBeNew: true }, (s) =>
        importAuthority(s, source, options),
      ),
    );
}

/**
 * Takes over the CA in a directory or manifest. Into an empty store it is adopted, signs at once, and a rotation
 * follows, because an authority that expires soon needs its successor now. Beside other authorities it is installed
 * like an intermediate, and published before it signs. If the store already has the authority, nothing changes.
 * @throws OperatorError for records that do not open, for material that does not verify, and for other files that have
 *   changed beside an authority that the store has.
 */
export async function importAuthority(
  session: Session,
  source: string,
  options: InstallOptions,
): Promise<void> {
  const { terminal, mint, now, log } = session;
  const store = await Session.open(session);
  Session.requireAllOpen(store);
  const material = await loadPluggedIn(source, options.roots);
  const known = knownAuthority(material, store);
  if (known) {
    await requireNothingNew(material, { known, store, trustDomain: mint.trustDomain }, now);
    terminal.print("The store has this authority already.");
    return;
  }
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  logImportWarnings(imported, log);
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  if (store.authorities.length > 0) {
    const bundle = bundleRoots(store, now);
    const otherRoots = otherRootsOf(imported, bundle);
    const intermediate = { verified: imported, extractablePrivateKey, otherRoots };
    await installChecked(session, intermediate, bundle);
  } else {
    await adoptAuthority(mint, { certificates, extractablePrivateKey, additionalRoots }, now);
    // An authority that expires soon needs its successor now.
    await orOperatorError(() => Rotation.rotate(mint, now));
  }
  await printStoreSummary(session);
  if (session.isDry) return;
  const check: NextCommand = [
    "rampart cluster check",
    "shows whether the CA knows the keys of each cluster, and which roots are there",
  ];
  terminal.noticeNext([check, backupStep, planStep]);
}
