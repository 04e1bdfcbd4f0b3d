import { Mint } from "../../../src/ca/mint.ts";
import { OpenedStore } from "../../../src/ca/opened-store.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { Composition } from "../../../src/config/composition.ts";
import { createTaint, type Departure } from "../../../src/pki/authority/new-taint.ts";

/** Taints the signing authority, and runs the cron. @returns The id of the authority. */
export async function taintSigner(
  { certificateAuthority, mint }: Pick<Composition, "certificateAuthority" | "mint">,
  departure: Departure,
  now: Date,
): Promise<string> {
  const { issuer } = await certificateAuthority.issuance.authorities.at(now);
  if (!issuer) throw new Error("no authority signs");
  const { id } = issuer.authority;
  const records = await mint.store.load();
  const store = await OpenedStore.open(records, mint);
  await Mint.recordTaint(mint, createTaint(store, id, departure, mint.phaseLengths, now));
  await Rotation.rotate(mint, now);
  return id;
}
