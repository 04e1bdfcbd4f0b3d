import type { Command } from "commander";
import { adoptAuthority } from "../../ca/adopt.ts";
import { rotate } from "../../ca/rotate.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { loadPluggedIn } from "../import/load.ts";
import { verifyPluggedIn } from "../import/verify.ts";
import { openStore, type Session, type SessionOptions, withSession } from "../session/session.ts";
import { printStoreSummary } from "../terminal/store-summary.ts";

interface ImportOptions extends SessionOptions {
  readonly roots?: string;
}

/** `rampart authority import`. */
export function addImport(command: Command, clock: () => Date): void {
  command
    .argument("<source>", "a directory (Istio's cacerts, kubernetes.io/tls) or a Secret's manifest")
    .description(
      "take over the CA of an existing mesh: it signs at once, and its key is sealed here",
    )
    .option("--roots <file>", "more roots to trust beside it, such as root-cert-combined.pem")
    .action((source: string, options: ImportOptions) =>
      withSession(options, clock, (s) => importAuthority(s, source, options)),
    );
}

async function importAuthority(
  session: Session,
  source: string,
  { roots }: ImportOptions,
): Promise<void> {
  const { mint, now, log } = session;
  const store = await openStore(session);
  if (store.authorities.length > 0 || store.refusals.length > 0) {
    throw new OperatorError(
      "the store has an authority already, whose workloads do not know the imported root:\n" +
        "import into an empty store, or trust the other CA's root with `rampart root add`",
    );
  }
  const material = await loadPluggedIn(source, roots);
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  for (const detail of imported.warnings) {
    log.operation({ event: "import-warning", level: "warning", detail });
  }
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  await adoptAuthority(mint, { certificates, extractablePrivateKey, additionalRoots }, now);
  // An authority that expires soon needs its successor now.
  await rotate(mint, now);
  await printStoreSummary(session);
}
