import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import { verifyPluggedIn } from "../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { caseRandom } from "../../fuzz/campaign/case-random.ts";
import { leafUnder } from "../../fuzz/imports/leaf-under.ts";
import { mutatedBundle } from "../../fuzz/imports/mutated-bundle.ts";
import { plainBundles } from "../../fuzz/imports/plain-bundles.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import type { Case } from "./leaves.ts";

export const mutantCases = 1_000;
const seed = 0x5eed;

/** A leaf below a CA that the import lets in. */
export interface ImportedCase extends Case {
  readonly material: PluggedInMaterial;
}

/** Imports a CA, and issues a leaf below it; or says why the import refuses it. */
async function imported(
  name: string,
  material: PluggedInMaterial,
  now: Date,
): Promise<ImportedCase | string> {
  try {
    const ca = await verifyPluggedIn(material, clusterLocal, now);
    const leaf = await leafUnder(ca);
    return { name, material, leaf, isGood: true, warnings: ca.warnings };
  } catch (error) {
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
}

/** Leaves below CAs of every kind. @throws Error that names each of which the import says something else than the corpus. */
export async function plainCases(): Promise<readonly ImportedCase[]> {
  const now = new Date();
  const accepted: ImportedCase[] = [];
  const faults: string[] = [];
  for (const { name, material, refusal } of await plainBundles()) {
    const outcome = await imported(name, material, now);
    if (typeof outcome !== "string" && refusal === undefined) accepted.push(outcome);
    else if (typeof outcome !== "string") faults.push(`${name}: accepted`);
    else if (!refusal?.test(outcome)) faults.push(`${name}: ${outcome}`);
  }
  if (faults.length > 0) throw new Error(faults.join("; "));
  return accepted;
}

/** Leaves below the mutated CAs of a fixed seed. Only what the import lets in is a question for others. */
export async function mutatedCases(): Promise<readonly ImportedCase[]> {
  const now = new Date();
  const accepted: ImportedCase[] = [];
  for (let i = 0; i < mutantCases; i++) {
    const { material, mutations } = await mutatedBundle(caseRandom(seed, "import", i), now);
    const outcome = await imported(`case ${i} (${mutations.join("; ")})`, material, now);
    if (typeof outcome !== "string") accepted.push(outcome);
  }
  return accepted;
}

/** istiod's own form of a plugged-in CA. */
export function istiodsQuestion({ material }: ImportedCase): object {
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
