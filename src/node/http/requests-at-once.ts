import type { ServerHttp2Session } from "node:http2";

/** How long a peer may take to acknowledge settings. */
const acknowledgementMilliseconds = 5_000;

/**
 * Tells the peer of a session how many requests it may have at once: one number at a time, and then the last. Node ends
 * a session with ten that the peer has not acknowledged, and in a flood there may be as many within one round trip.
 */
export function allowing(
  session: ServerHttp2Session,
  clock: () => number,
  cut: () => void,
): (requests: number) => void {
  let [wanted, told] = [Number.NaN, Number.NaN];
  let toldAt: number | undefined;
  const tell = (): void => {
    if (session.destroyed || wanted === told) return;
    [told, toldAt] = [wanted, clock()];
    session.settings({ maxConcurrentStreams: told }, () => {
      toldAt = undefined;
      tell();
    });
  };
  return (requests) => {
    wanted = requests;
    if (toldAt === undefined) tell();
    // RFC 9113 section 6.5.3: such a peer would keep to no bound.
    else if (clock() - toldAt > acknowledgementMilliseconds) cut();
  };
}
