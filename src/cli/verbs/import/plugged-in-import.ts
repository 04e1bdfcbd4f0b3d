import type { Mint } from "../../../ca/mint.ts";
import { openStored } from "../../../ca/opened-store.ts";
import { adoptAuthority } from "../../../ca/rotation/adopt.ts";
import { installIntermediate } from "../../../ca/upstream/install-intermediate.ts";
import { OperatorError } from "../../../foundation/operator-error.ts";
import type { PluggedInImport } from "../../../node/serve/plugged-in.ts";
import { type Bytes, bytesEqual } from "../../../pki/encoding/bytes.ts";
import { loadDirectory } from "./load.ts";
import { bundleRoots, isInStore, otherRootsOf } from "./offered-intermediate.ts";
import type { PluggedInMaterial } from "./plugged-in-material.ts";
import { verifyPluggedIn } from "./verify.ts";

/**
 * Imports a directory for `rampart serve`. The operator who names the directory in the configuration trusts
 * whoever may write there, so that a new root needs no question.
 */
export const importPluggedIn: PluggedInImport = async (mint, directory, now) => {
  const material = await loadDirectory(directory);
  const store = await openStored(await mint.store.load(), mint);
  if (isInStore(material, store)) {
    return requireNothingNew(material, mint, bundleRoots(store, now), now);
  }
  if (store.refusals.length > 0)
    throw new OperatorError("the store holds records that do not open");
  const imported = await verifyPluggedIn(material, mint.trustDomain, now);
  for (const detail of imported.warnings) {
    mint.log.operation({ event: "import-warning", level: "warning", detail });
  }
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  if (store.authorities.length === 0) {
    const adopted = { certificates, extractablePrivateKey, additionalRoots };
    await adoptAuthority(mint, adopted, now);
  } else {
    const otherRoots = otherRootsOf(imported, bundleRoots(store, now));
    await installIntermediate(mint, { verified: imported, extractablePrivateKey, otherRoots }, now);
  }
};

/**
 * Beside a CA certificate that the store has, the other files may have changed. No import takes them on, so a
 * fault in them, or another root, is said.
 */
async function requireNothingNew(
  material: PluggedInMaterial,
  { trustDomain }: Mint,
  bundle: readonly Bytes[],
  now: Date,
): Promise<void> {
  const { certificates, additionalRoots } = await verifyPluggedIn(material, trustDomain, now);
  const roots = [...certificates.roots, ...additionalRoots];
  if (roots.every((root) => bundle.some((each) => bytesEqual(each, root)))) return;
  throw new OperatorError(
    "root-cert.pem has a root that the trust bundle has not, beside a CA certificate that the store has: " +
      "`rampart root add` adds it",
  );
}
