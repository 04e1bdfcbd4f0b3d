import type { Revocation } from "../../../src/agent/trust/revocation.ts";

/** Whether secrets need not wait for CRLs any more. It takes a turn of the event loop. */
export async function isSettled(revocation: Revocation): Promise<boolean> {
  const settled = revocation.settled().then(() => true);
  const later = new Promise<false>((resolve) => setImmediate(() => resolve(false)));
  return Promise.race([settled, later]);
}
