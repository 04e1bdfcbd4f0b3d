import { join } from "node:path";
import { plainBundles } from "../../fuzz/imports/plain-bundles.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import type { Outcome } from "../agent/outcome-table.ts";
import { istioCa } from "../istio-ca/software.ts";
import { fromCargo, fromGoModule, ofTheMachine, type Software } from "../software.ts";
import {
  type Accepted,
  acceptedMutants,
  askInLines,
  faultsOf,
  gnutlsFault,
  type Imported,
  importOf,
  istiodsQuestion,
  mutantCases,
  opensslFault,
  requireFoundGood,
} from "./mutants.ts";

const client = "CAs of others";

/** The suite reads the outcomes from the standard output, one a line. */
const tell = (outcome: Outcome): void => console.log(JSON.stringify(outcome));

async function telling(server: string, what: string, act: () => Promise<string>): Promise<void> {
  await act().then(
    (detail) => tell({ client, server, what, result: "ok", detail }),
    (error) => tell({ client, server, what, result: "FAILED", detail: String(error) }),
  );
}

/** The verifiers of the leaves, and the warning of ours for which each may refuse one. */
async function askAll(folder: string, accepted: readonly Accepted[]): Promise<void> {
  const leaves = accepted.map(({ leaf }) => leaf);
  const isWarned = (words: string) => (each: Accepted) =>
    each.warnings.some((warning) => warning.includes(words));
  const go = await fromGoModule(join(import.meta.dirname, "oracle"), "own-root-oracle");
  await judge("Go's crypto/x509", go, async (program) =>
    requireFoundGood(accepted, await askInLines(program, [], leaves)),
  );
  await judge("Istio's NewVerifiedKeyCertBundleFromPem", await istioCa(), async (istio) =>
    requireFoundGood(
      accepted,
      await askInLines(istio, ["-bundles"], accepted.map(istiodsQuestion)),
    ),
  );
  const webpki = await fromCargo(join(import.meta.dirname, "webpki"), "webpki-judge");
  await judge("ztunnel's verifier, rustls-webpki 0.103.13", webpki, async (program) =>
    requireFoundGood(accepted, await askInLines(program, [], leaves), isWarned("ztunnel")),
  );
  const openssl = await ofTheMachine("openssl", ["version"], /^OpenSSL 3/);
  await judge("openssl verify", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, opensslFault(folder)),
      isWarned("OpenSSL refuses it without -partial_chain"),
    ),
  );
  await judge("openssl verify -x509_strict", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, opensslFault(folder, "-x509_strict", "-partial_chain")),
      isWarned("`openssl -x509_strict`"),
    ),
  );
  const gnutls = await ofTheMachine("certtool", ["--version"], /certtool 3/);
  await judge("GnuTLS", gnutls, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, gnutlsFault(folder)),
      isWarned("GnuTLS refuse"),
    ),
  );
}

async function judge(
  server: string,
  software: Software,
  act: (program: string) => Promise<string>,
): Promise<void> {
  const what = "no leaf under an imported CA is refused";
  if ("missing" in software) {
    return tell({ client, server, what, result: "NOT RUN", detail: software.missing });
  }
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
