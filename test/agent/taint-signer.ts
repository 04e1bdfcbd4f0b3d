import { rotate } from "../../src/ca/rotate.ts";
import { recordTaint } from "../../src/ca/taint.ts";
import type { Composition } from "../../src/config/composition.ts";
import { createTaint, type Departure } from "../../src/pki/taint.ts";

/** Taints the authority that signs now, and lets the cron do what follows. @returns Its id. */
export async function taintSigner(
  { certificateAuthority, mint }: Composition,
  departure: Departure,
  now: Date,
): Promise<string> {
  const { issuer } = await certificateAuthority.issuance.authorities.at(now);
  if (!issuer) throw new Error("nothing signs");
  await recordTaint(mint, createTaint(issuer.authority, departure, mint.phaseLengths, now));
  await rotate(mint, now);
  return issuer.authority.id;
}
