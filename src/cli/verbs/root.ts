import { Command } from "commander";
import { Mint } from "../../ca/mint.ts";
import type { OpenedStore } from "../../ca/opened-store.ts";
import { trustRoot } from "../../ca/rotation/adopt.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { createRootTaint } from "../../pki/authority/new-taint.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { AdditionalRoot } from "../../pki/authority/trust-bundle.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { CaCertificate } from "../../pki/path/certification-path.ts";
import { addSeconds, wholeSeconds } from "../../pki/x509/validity.ts";
import { mayBeRoot } from "../../program/files/pem-file.ts";
import { AuthorityStatus } from "../../status/authorities.ts";
import { Session, type SessionOptions } from "../session/session.ts";
import { addChangeOptions, addDeploymentOptions, typedSeconds } from "../terminal/command-line.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { formatInstant } from "../terminal/text.ts";
import { findByIdPrefix } from "./authority/requirements.ts";
import { requireEffect } from "./authority/rotation.ts";
import {
  formatAuthorities,
  printStoreSummary,
  printTaintedAuthorities,
} from "./authority/store-summary.ts";
import { loadSource } from "./import/ca-entries.ts";
import { type ImportedCertificate, readCertificates } from "./import/pem-files.ts";
import { isIn } from "./import/plugged-in-import.ts";

const maximumOctets = 256 * 1024;

interface RemoveOptions extends SessionOptions {
  readonly after?: number;
}

/** `rampart root …`: lists, adds and removes the roots that verifiers accept beside the CA's own. */
export function rootCommand(terminal: Terminal): Command {
  const root = new Command("root").description("roots that the mesh trusts beside the CA's own");
  addDeploymentOptions(root.command("list"))
    .description("list every additional root")
    .option("--json", "print JSON")
    .action(Session.action(terminal, list));
  addChangeOptions(root.command("add"))
    .argument("<file>", "PEM of one or more self-signed CA certificates")
    .description("add roots to the trust bundle, once every reader has their records")
    .action(Session.action(terminal, add));
  addChangeOptions(root.command("remove"))
    .argument(
      "<id>",
      "the SHA-256 of its certificate as `list` shows it, or its first 4 characters or more",
    )
    .description("remove a root from the trust bundle, for good")
    .option(
      "--after <duration>",
      "the delay until then, such as 24h; 0s is at once (default: until every reader knows of it)",
      typedSeconds,
    )
    .option("-y, --yes", "do not ask for confirmation")
    .action(Session.action(terminal, remove));
  return root;
}

async function list(session: Session, options: SessionOptions): Promise<void> {
  const { terminal, now } = session;
  const store = await Session.open(session);
  const roots = AuthorityStatus.allIn(store, now).filter(({ kind }) => kind === "additional root");
  Session.answerList(session, store, roots, options, () =>
    formatAuthorities(terminal, roots, "The store holds no additional root."),
  );
}

/**
 * Adds the roots of a PEM file to the trust bundle; they are published once every replica can have them. Roots that it
 * has already are left out.
 * @throws OperatorError for a certificate that is no root, one that was removed or tainted, and if all are trusted
 *   already.
 */
export async function add(session: Session, file: string): Promise<void> {
  const certificates = readCertificates(await loadSource(file, maximumOctets));
  for (const certificate of certificates) requireRoot(certificate, file, session.now);
  const store = await Session.openToWrite(session);
  const { propagationSeconds } = session.mint.phaseLengths;
  const publishedFrom = addSeconds(wholeSeconds(session.now), propagationSeconds);
  const roots = await Promise.all(
    certificates.map(({ der }) => AdditionalRoot.create(der, publishedFrom)),
  );
  for (const root of roots) requireAddable(root, store, session.mint);
  const missing = roots.filter((root) => trustedBy(root, store) === undefined);
  const [first] = roots;
  if (missing.length === 0 && first)
    throw new OperatorError(`${first.id} ${trustedBy(first, store)}`);
  // Istio's file has an authority's root beside new ones. As an additional root, it would outlive a taint of the authority.
  const inBundle = store.authorities.flatMap((each) => each.roots);
  const added = missing.filter((root) => !isIn(inBundle, root.roots[0]));
  for (const {
    roots: [der],
  } of added.length > 0 ? added : missing)
    await trustRoot(session.mint, der, publishedFrom);
  await printStoreSummary(session);
}

function requireRoot(certificate: ImportedCertificate, file: string, now: Date): void {
  const { verifier } = certificate;
  if (!CaCertificate.isSelfIssued(certificate) || !verifier.verify(verifier.publicKey))
    throw new OperatorError(
      `${file}: holds a certificate that is not self-signed, so it is no root`,
    );
  if (!mayBeRoot(verifier))
    throw new OperatorError(`${file}: holds a certificate that is not a CA's`);
  if (certificate.toBeSigned.validity.notAfter > now) return;
  throw new OperatorError(`${file}: holds a certificate that has expired`);
}

/**
 * Says why a root needs no record of its own; `undefined` for one that is to be added. An authority's root, as an
 * additional one, would stay trusted after a taint of the authority.
 */
function trustedBy(
  { id, roots: [root] }: AdditionalRoot,
  { additionalRoots, authorities }: OpenedStore,
): string | undefined {
  const owner = authorities.find(({ certificate }) => Bytes.equal(certificate.der, root));
  if (owner) return `is the root of authority ${owner.id}`;
  return additionalRoots.some((each) => each.id === id) ? "is trusted already" : undefined;
}

function requireAddable(
  added: AdditionalRoot,
  { storedTaints }: OpenedStore,
  { configuredTaints }: Mint,
): void {
  const { id } = added;
  if (Taint.fromConfiguration(configuredTaints, [added]).length > 0) {
    throw new OperatorError(`${id} is in TAINTED_AUTHORITIES`);
  }
  const taint = storedTaints.find((each) => each.id === id);
  if (taint) {
    throw new OperatorError(
      `${id} was removed at ${formatInstant(taint.taintedAt)} and cannot be added again`,
    );
  }
}

/**
 * Schedules the removal of an additional root from the trust bundle, after a confirmation. It is final: the root cannot
 * be added again.
 * @throws OperatorError if no root, or more than one, has the prefix `id`; and if it is out of the bundle by then anyway.
 */
export async function remove(session: Session, id: string, options: RemoveOptions): Promise<void> {
  const { mint, now } = session;
  const store = await Session.openToWrite(session);
  const { additionalRoots, taints, storedTaints } = store;
  // Applies the existing taints first, because a removal that is scheduled can only be moved to an earlier time.
  const root = findByIdPrefix(Taint.apply(additionalRoots, taints), id, "additional root");
  const at = addSeconds(now, options.after ?? mint.phaseLengths.propagationSeconds);
  const taint = createRootTaint(root, at, now);
  requireEffect({ authorities: additionalRoots, taints: storedTaints }, taint);
  const question = `Remove ${root.id} from the trust bundle at ${formatInstant(at)}? Verifiers refuse its certificates from then on.`;
  await Session.confirm(session, question);
  await Mint.recordTaint(mint, taint);
  await printStoreSummary(session);
  printTaintedAuthorities(session, store, taint);
}
