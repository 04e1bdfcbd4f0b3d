import { Subscribers } from "../../../src/agent/subscribers.ts";
import { Revocation } from "../../../src/agent/trust/revocation.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { createEventRecorder } from "../log/event-recorder.ts";

/** The CRLs of an agent without identities, with the parts that they need. */
export function createRevocation(clock: () => Date) {
  const [trust, log] = [new TrustRoots(), createEventRecorder()];
  const identities = { all: () => [], changes: new Subscribers() };
  let refused = 0;
  const metrics = {
    crlsRefused: (count: number): void => {
      refused += count;
    },
  };
  const revocation = new Revocation({ trust, identities, metrics, log, clock });
  return { trust, log, identities, revocation, refused: () => refused };
}

/** Whether secrets need not wait for CRLs any more. It takes a turn of the event loop. */
export async function isSettled(revocation: Revocation): Promise<boolean> {
  const settled = revocation.settled().then(() => true);
  const later = new Promise<false>((resolve) => setImmediate(() => resolve(false)));
  return Promise.race([settled, later]);
}
