import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import { verifyPluggedIn } from "../../../src/cli/verbs/import/verify.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { caseRandom } from "../../fuzz/campaign/case-random.ts";
import { type LeafUnder, leafUnder } from "../../fuzz/imports/leaf-under.ts";
import { mutatedBundle } from "../../fuzz/imports/mutated-bundle.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";

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
    const leaf = await leafUnder(ca);
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
