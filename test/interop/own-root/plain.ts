import { plainBundles } from "../../fuzz/imports/plain-bundles.ts";
import { type Accepted, type Imported, importOf } from "./mutants.ts";

/** The bundles that the import takes, and how many it refuses, each for the reason that the corpus names. */
export interface JudgedBundles {
  readonly accepted: readonly Accepted[];
  readonly detail: string;
}

/** @throws Error that names each bundle of which the import says something else. */
export async function importPlainBundles(): Promise<JudgedBundles> {
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
