import { openStored } from "../../../ca/opened-store.ts";
import { adoptAuthority } from "../../../ca/rotation/adopt.ts";
import { installIntermediate } from "../../../ca/upstream/install-intermediate.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { PluggedInImport } from "../../../node/server.ts";
import { knownAuthority, requireNothingNew } from "./known-authority.ts";
import { loadDirectory } from "./load.ts";
import { bundleRoots, otherRootsOf } from "./offered-intermediate.ts";
import { logImportWarnings, verifyPluggedIn } from "./verify.ts";

/**
 * Imports a directory for `rampart serve`. The operator who names the directory in the configuration trusts
 * whoever may write there, so that a new root needs no question.
 */
export const importPluggedIn: PluggedInImport = async (mint, directory, now) => {
  const material = await loadDirectory(directory);
  const store = await openStored(await mint.store.load(), mint);
  const known = knownAuthority(material, store);
  if (known) {
    return requireNothingNew(material, { known, store, trustDomain: mint.trustDomain }, now);
  }
  if (store.refusals.length > 0)
    throw new OperatorError("the store holds records that do not open");
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  logImportWarnings(imported, mint.log);
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  if (store.authorities.length === 0) {
    const adopted = { certificates, extractablePrivateKey, additionalRoots };
    await adoptAuthority(mint, adopted, now);
  } else {
    const otherRoots = otherRootsOf(imported, bundleRoots(store, now));
    await installIntermediate(mint, { verified: imported, extractablePrivateKey, otherRoots }, now);
  }
};
