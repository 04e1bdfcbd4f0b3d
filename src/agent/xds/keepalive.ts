import type { ClientHttp2Session } from "node:http2";
import type { Pause } from "../../foundation/work/pause.ts";

const pingEveryMilliseconds = 30_000;
const pingTimeoutMilliseconds = 10_000;

/** Pings until the signal aborts, or until the peer does not answer. */
export async function keepAlive(
  session: ClientHttp2Session,
  pause: Pause,
  signal: AbortSignal,
): Promise<"over" | "unanswered"> {
  for (;;) {
    await pause(pingEveryMilliseconds, signal);
    if (signal.aborted || session.destroyed) return "over";
    if (!(await isAnswered(session, pause, signal))) return signal.aborted ? "over" : "unanswered";
  }
}

async function isAnswered(
  session: ClientHttp2Session,
  pause: Pause,
  signal: AbortSignal,
): Promise<boolean> {
  const settled = new AbortController();
  const answered = new Promise<boolean>((resolve) => {
    session.ping((error) => resolve(error === null));
  });
  const late = pause(pingTimeoutMilliseconds, AbortSignal.any([signal, settled.signal]));
  const isInTime = await Promise.race([answered, late.then(() => false)]);
  settled.abort();
  return isInTime;
}
