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
  abort: () => void,
): (requests: number) => void {
  let [wanted, sent] = [Number.NaN, Number.NaN];
  let sentAt: number | undefined;
  const send = (): void => {
    if (session.destroyed || wanted === sent) return;
    [sent, sentAt] = [wanted, clock()];
    session.settings({ maxConcurrentStreams: sent }, () => {
      sentAt = undefined;
      send();
    });
  };
  return (requests) => {
    wanted = requests;
    if (sentAt === undefined) send();
    // A peer that does not acknowledge settings obeys no limit (RFC 9113 §6.5.3).
    else if (clock() - sentAt > acknowledgementMilliseconds) abort();
  };
}
