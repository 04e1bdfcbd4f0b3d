import type { Command } from "commander";
import { adoptAuthority } from "../../../ca/rotation/adopt.ts";
import { rotate } from "../../../ca/rotation/rotate.ts";
import {
  openStore,
  requireAllOpen,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { ConfirmationOptions } from "../../terminal/questions.ts";
import type { NextStep, Terminal } from "../../terminal/terminal.ts";
import { loadPluggedIn } from "../import/load.ts";
import {
  bundleRoots,
  knownAuthority,
  otherRootsOf,
  requireNothingNew,
} from "../import/plugged-in-import.ts";
import { logImportWarnings, verifyPluggedIn } from "../import/verify.ts";
import { installChecked } from "./authority-install.ts";
import { backupStep, planStep, printStoreSummary } from "./store-summary.ts";

interface ImportOptions extends SessionOptions, ConfirmationOptions {
  readonly roots?: string;
}

/** `rampart authority import`. */
export function addImport(command: Command, terminal: Terminal): void {
  command
    .argument("<source>", "a directory (Istio's cacerts, kubernetes.io/tls) or a Secret's manifest")
    .description(
      "take over the CA of an existing mesh: into an empty store it signs at once; beside other authorities it is published first",
    )
    .option("--roots <file>", "more roots to trust beside it, such as root-cert-combined.pem")
    .option("-y, --yes", "do not ask whether a root that is new to the mesh is to be trusted")
    .action((source: string, options: ImportOptions) =>
      withSession(terminal, options, (s) => importAuthority(s, source, options)),
    );
}

export async function importAuthority(
  session: Session,
  source: string,
  options: ImportOptions,
): Promise<void> {
  const { terminal, mint, now, log } = session;
  const store = await openStore(session);
  requireAllOpen(store);
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
    await installChecked(session, intermediate, bundle, options);
  } else {
    await adoptAuthority(mint, { certificates, extractablePrivateKey, additionalRoots }, now);
    // An authority that expires soon needs its successor now.
    await orOperatorError(() => rotate(mint, now));
  }
  await printStoreSummary(session);
  if (session.isDry) return;
  const check: NextStep = [
    session.typed("cluster check"),
    "shows whether the CA knows the keys of each cluster, and which roots are there",
  ];
  terminal.noticeNext([check, backupStep(session), planStep(session)]);
}
