import { existsSync } from "node:fs";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import { type Pause, waitFor } from "../../foundation/pause.ts";
import { readTokenFileIfAny, systemCode } from "../../program/files/small-file.ts";
import type { ConnectionFiles } from "../configuration/ca-settings.ts";
import type { IstiodSettings } from "../configuration/xds-settings.ts";
import { readConnectionTls, type ServerRoots } from "../identity/ca-channel.ts";

/** How the connection measures time, and which roots count beside those of its file. */
export interface ConnectionPorts {
  readonly clock: () => Date;
  readonly pause: Pause;
  readonly roots: ServerRoots;
}

const connectMilliseconds = 5_000;
const windowOctets = 1 << 20;

/** In MiB. The queue of requests has a bound of its own, and this must not come first. */
const sessionMemory = 256;

const grpcHeaders = {
  ":method": "POST",
  "content-type": "application/grpc",
  te: "trailers",
  "user-agent": "rampart-agent",
};

/**
 * Opens a stream to istiod, on a connection of its own. It reads the token, the roots and the client
 * certificate anew.
 *
 * @throws Error with a sentence for the operator. It names the code of a fault, and quotes nothing of the peer.
 */
export async function connectToIstiod(
  settings: IstiodSettings,
  path: string,
  { clock, pause, roots }: ConnectionPorts,
  signal: AbortSignal,
) {
  const { address, isPlaintext, headers, tokenFile } = settings;
  const tls = isPlaintext ? {} : await readConnectionTls(filesOf(settings), clock(), roots);
  const token = isPlaintext ? undefined : await readTokenFileIfAny(tokenFile);
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const session = connect(`${isPlaintext ? "http" : "https"}://${address}`, {
    ...tls,
    settings: { enablePush: false, initialWindowSize: windowOctets },
    maxSessionMemory: sessionMemory,
  });
  const ended = new AbortController();
  const state = watch(session, ended);
  let stream: ClientHttp2Stream;
  try {
    await connected(session, pause, AbortSignal.any([signal, ended.signal]));
    session.setLocalWindowSize(windowOctets);
    stream = session.request({ ":path": path, ...grpcHeaders, ...headers, ...authorization });
  } catch (cause) {
    session.destroy();
    const why = whyOf(state.error ?? cause);
    throw new OperatorError(`istiod at ${address} cannot be reached: ${why}`, { cause });
  }
  void keepAlive(session, pause, ended.signal).then((outcome) => {
    if (outcome === "over") return;
    state.error ??= new Error("istiod answered no ping within 10 s");
    session.destroy();
  });
  stream.on("error", (error) => {
    state.error ??= error;
  });
  return {
    stream,
    /** Whether the connection has ended, and not only its stream. */
    isDown: () => session.destroyed,
    /** The fault that ended the connection, if one did. */
    fault: () => state.error && whyOf(state.error),
    close: () => session.destroy(),
  };
}

export type IstiodConnection = Readonly<Awaited<ReturnType<typeof connectToIstiod>>>;

function filesOf({ files, preferredRootFile }: IstiodSettings): ConnectionFiles {
  const isPreferred = preferredRootFile !== undefined && existsSync(preferredRootFile);
  return isPreferred ? { ...files, rootFile: preferredRootFile } : files;
}

function watch(session: ClientHttp2Session, ended: AbortController): { error?: Error } {
  const state: { error?: Error } = {};
  session.on("error", (error) => {
    state.error ??= error;
  });
  session.on("close", () => ended.abort());
  return state;
}

/** Rejects when the connection fails, takes too long or is no longer wanted. */
async function connected(
  session: ClientHttp2Session,
  wait: Pause,
  signal: AbortSignal,
): Promise<void> {
  const opened = new Promise<true>((resolve) => session.once("connect", () => resolve(true)));
  const isOpen = await waitFor(opened, connectMilliseconds, until(signal, wait));
  if (!isOpen) throw new Error("no answer in time");
}

/** The same waits, which end with the signal as well. */
const until =
  (signal: AbortSignal, wait: Pause): Pause =>
  (milliseconds, done = signal) =>
    wait(milliseconds, AbortSignal.any([signal, done]));

const whyOf = (error: unknown): string => systemCode(error) ?? messageOf(error);

const pingEveryMilliseconds = 30_000;
const pingTimeoutMilliseconds = 10_000;

/** Pings until the signal aborts, or until the peer does not answer. */
async function keepAlive(
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
  wait: Pause,
  signal: AbortSignal,
): Promise<boolean> {
  const answered = new Promise<boolean>((resolve) => {
    session.ping((error) => resolve(error === null));
  });
  return (await waitFor(answered, pingTimeoutMilliseconds, until(signal, wait))) ?? false;
}
