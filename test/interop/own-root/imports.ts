import { join } from "node:path";
import { plainBundles } from "../../fuzz/imports/plain-bundles.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import {
  askInLines,
  faultsOf,
  gnutlsFault,
  gnutlsJudge,
  goJudge,
  opensslFault,
  opensslJudge,
  webpkiJudge,
} from "../judges.ts";
import { ask } from "../native-grpc/clients/clients.ts";
import { notRun, type Outcome, shown } from "../outcome-table.ts";
import { fromGoModule, type Software } from "../software.ts";
import {
  type Accepted,
  acceptedMutants,
  type Imported,
  importOf,
  istiodsQuestion,
  mutantCases,
  requireFoundGood,
} from "./mutants.ts";

const client = "CAs of others";

/** The suite reads the outcomes from the standard output, one a line. */
const tell = (outcome: Outcome): void => console.log(JSON.stringify(outcome));

const telling = async (server: string, what: string, act: () => Promise<string>): Promise<void> =>
  tell(await shown({ client, server, what }, act));

/** The verifiers of the leaves, and the warning of ours for which each may refuse one. */
async function askAll(folder: string, accepted: readonly Accepted[]): Promise<void> {
  const leaves = accepted.map(({ leaf }) => leaf);
  const isWarned = (words: string) => (each: Accepted) =>
    each.warnings.some((warning) => warning.includes(words));
  await judge("Go's crypto/x509", await goJudge(), async (program) =>
    requireFoundGood(accepted, await askInLines(program, leaves)),
  );
  const istio = await fromGoModule(join(import.meta.dirname, "../istio-client"), "istio-client");
  await judge("Istio's NewVerifiedKeyCertBundleFromPem", istio, async (program) =>
    requireFoundGood(
      accepted,
      await ask<readonly string[]>(program, "bundles", accepted.map(istiodsQuestion)),
    ),
  );
  await judge("ztunnel's verifier, rustls-webpki 0.103.13", await webpkiJudge(), async (program) =>
    requireFoundGood(accepted, await askInLines(program, leaves), isWarned("ztunnel")),
  );
  const openssl = await opensslJudge();
  await judge("openssl verify", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(leaves, opensslFault(folder)),
      isWarned("OpenSSL refuses it without -partial_chain"),
    ),
  );
  await judge("openssl verify -x509_strict", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(leaves, opensslFault(folder, "-x509_strict", "-partial_chain")),
      isWarned("`openssl -x509_strict`"),
    ),
  );
  await judge("GnuTLS", await gnutlsJudge(), async () =>
    requireFoundGood(
      accepted,
      await faultsOf(leaves, gnutlsFault(folder)),
      // GnuTLS alone refuses a mail address of no octets.
      (each, fault) => isWarned("GnuTLS refuse")(each) || fault.includes("Unknown Subject Alt"),
    ),
  );
}

async function judge(
  server: string,
  software: Software,
  act: (program: string) => Promise<string>,
): Promise<void> {
  const what = "no leaf under an imported CA is refused";
  if ("missing" in software) return tell(notRun({ client, server, what }, software.missing));
  await telling(server, what, () => act(software.program));
}

const folder = await lastingFolder();
const accepted: Accepted[] = [];
await telling(
  "rampart",
  "bundles of every kind are imported, or refused for the reason",
  async () => {
    const plain = await importPlainBundles();
    accepted.push(...plain.accepted);
    return plain.detail;
  },
);
await telling("rampart", `${mutantCases} mutated CAs`, async () => {
  const mutants = await acceptedMutants();
  accepted.push(...mutants);
  return `${mutants.length} imported`;
});
await askAll(folder, accepted);

/** The bundles that the import takes, and how many it refuses, each for the reason that the corpus names. */
interface JudgedBundles {
  readonly accepted: readonly Accepted[];
  readonly detail: string;
}

/** @throws Error that names each bundle of which the import says something else. */
async function importPlainBundles(): Promise<JudgedBundles> {
  const now = new Date();
  const bundles = await plainBundles();
  const accepted: Accepted[] = [];
  const faults: string[] = [];
  for (const { name, material, refusal } of bundles) {
    const imported = await importOf({ name, material }, now);
    if (isAsTold(imported, refusal))
      accepted.push(...("accepted" in imported ? [imported.accepted] : []));
    else faults.push(`${name}: ${"refused" in imported ? imported.refused : "accepted"}`);
  }
  if (faults.length > 0) throw new Error(faults.join("; "));
  const refused = bundles.length - accepted.length;
  return {
    accepted,
    detail: `${bundles.length} bundles: ${accepted.length} accepted, ${refused} refused for their reasons`,
  };
}

function isAsTold(imported: Imported, refusal: RegExp | undefined): boolean {
  return "refused" in imported ? (refusal?.test(imported.refused) ?? false) : refusal === undefined;
}
