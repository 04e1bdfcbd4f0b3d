import type { ServerHttp2Session } from "node:http2";

/** How long a peer may take to acknowledge settings. */
const acknowledgementMilliseconds = 5_000;

/**
 * Creates the function that tells a peer how many requests it may have open. Node ends a session with ten unacknowledged
 * settings. So while one is unacknowledged, only the latest number waits. After five seconds a call aborts the session.
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
