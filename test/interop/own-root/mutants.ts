import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import { verifyPluggedIn } from "../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { caseRandom } from "../../fuzz/campaign/case-random.ts";
import { type LeafUnder, leafUnder } from "../../fuzz/imports/leaf-under.ts";
import { mutatedBundle } from "../../fuzz/imports/mutated-bundle.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";

/** How many mutated CAs are tried. */
export const mutantCases = 2_500;
const seed = 0x5eed;

/** A mutated CA that Rampart imports, and what a workload gets under it. */
export interface Accepted {
  readonly name: string;
  readonly material: PluggedInMaterial;
  readonly warnings: readonly string[];
  readonly leaf: LeafUnder;
}

/** A plugged-in CA, and where it comes from. */
interface Offered {
  readonly name: string;
  readonly material: PluggedInMaterial;
}

export type Imported = { readonly accepted: Accepted } | { readonly refused: string };

/** Imports a CA, and issues a leaf below it; or says why the import refuses it. */
export async function importOf({ name, material }: Offered, now: Date): Promise<Imported> {
  try {
    const ca = await verifyPluggedIn(material, clusterLocal, now);
    const leaf = await leafUnder(ca, clusterLocal, now);
    return { accepted: { name, material, warnings: ca.warnings, leaf } };
  } catch (error) {
    if (error instanceof OperatorError) return { refused: error.message };
    throw error;
  }
}

/** Imports the mutated CAs of a fixed seed. Only what the import lets in is a question for others. */
export async function acceptedMutants(): Promise<readonly Accepted[]> {
  const now = new Date();
  const accepted: Accepted[] = [];
  for (let i = 0; i < mutantCases; i++) {
    const { material, mutations } = await mutatedBundle(caseRandom(seed, "import", i), now);
    const name = `case ${i} (${mutations.join("; ")})`;
    const imported = await importOf({ name, material }, now);
    if ("accepted" in imported) accepted.push(imported.accepted);
  }
  return accepted;
}

/** A verifier's refusal that a warning of the import has foretold. */
type Foretold = (accepted: Accepted, fault: string) => boolean;

const never: Foretold = () => false;

/** @throws Error that shows the first few of the CAs whose leaves are refused without a warning. */
export function requireFoundGood(
  accepted: readonly Accepted[],
  faults: readonly string[],
  foretold: Foretold = never,
): string {
  const refused = accepted.flatMap((each, i) => {
    const fault = faults[i] ?? "no answer";
    return fault === "" ? [] : [{ each, fault }];
  });
  const untold = refused.filter(({ each, fault }) => !foretold(each, fault));
  if (untold.length === 0) {
    return `${accepted.length} leaves; ${refused.length} refused, as a warning says`;
  }
  const shown = untold.slice(0, 5).map(({ each, fault }) => `${each.name}: ${fault}`);
  throw new Error(`${untold.length} refused without a warning: ${shown.join("; ")}`);
}

/** Asks a program that answers each line of JSON with a line that holds a fault, or none. */
export async function askInLines(
  program: string,
  values: readonly string[],
  questions: readonly object[],
): Promise<readonly string[]> {
  const input = questions.map((each) => `${JSON.stringify(each)}\n`).join("");
  const lines = (await runWell(program, values, { input, timeoutSeconds: 300 })).trim().split("\n");
  return lines.map((line) => (JSON.parse(line) as { fault: string }).fault);
}

/** istiod's own form of a plugged-in CA. */
export function istiodsQuestion({ material }: Accepted): object {
  const { certificate, privateKey, chain, roots } = material;
  const texts = (sources: readonly { readonly text: string }[]): string =>
    sources.map(({ text }) => text).join("");
  return {
    Certificate: certificate.text,
    Key: privateKey.text,
    Chain: texts(chain),
    Roots: texts(roots),
  };
}

/** What `openssl verify` says with these options, for a server and for a client. */
export function opensslFault(
  folder: string,
  ...options: readonly string[]
): (accepted: Accepted) => Promise<string> {
  return async ({ leaf }) => {
    const files = await writeLeaf(folder, leaf);
    const verify = async (purpose: string): Promise<string> => {
      const trust = ["-CAfile", files.root, "-untrusted", files.intermediates];
      const values = ["verify", ...options, "-purpose", purpose, ...trust, files.leaf];
      const { exitCode, stderr } = await run("openssl", values);
      if (exitCode === 0) return "";
      return stderr.trim().split("\n").slice(1, 2).join() || `${exitCode}`;
    };
    const [server, client] = await Promise.all(["sslserver", "sslclient"].map(verify));
    return server || client || "";
  };
}

/** What GnuTLS says. It wants a chain in its order. */
export function gnutlsFault(folder: string): (accepted: Accepted) => Promise<string> {
  return async ({ leaf }) => {
    const files = await writeLeaf(folder, leaf);
    const chain = join(folder, "chain.pem");
    await writeFile(chain, leaf.leafPem + leaf.intermediatesPem);
    const verify = async (purpose: string): Promise<string> => {
      const values = ["--verify", "--verify-purpose", purpose, "--infile", chain];
      const trust = ["--load-ca-certificate", files.root];
      const { exitCode, stdout, stderr } = await run("certtool", [...values, ...trust]);
      if (exitCode === 0) return "";
      const [said] = /Chain verification output: .*/.exec(stdout) ?? [stderr.trim()];
      return said || `${exitCode}`;
    };
    const usages = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];
    const [server, client] = await Promise.all(usages.map(verify));
    return server || client || "";
  };
}

async function writeLeaf(folder: string, { leafPem, intermediatesPem, rootPem }: LeafUnder) {
  const [leaf, intermediates, root] = ["leaf", "intermediates", "root"].map((name) =>
    join(folder, `${name}.pem`),
  ) as [string, string, string];
  await Promise.all([
    writeFile(leaf, leafPem),
    // OpenSSL wants a certificate in each file that it is given.
    writeFile(intermediates, intermediatesPem || rootPem),
    writeFile(root, rootPem),
  ]);
  return { leaf, intermediates, root };
}

/** One after the other: the programs share the files of a folder. */
export async function faultsOf(
  accepted: readonly Accepted[],
  faultOf: (accepted: Accepted) => Promise<string>,
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const each of accepted) faults.push(await faultOf(each));
  return faults;
}
