import { existsSync } from "node:fs";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { messageOf, OperatorError } from "../../foundation/errors.ts";
import { type Pause, waitFor } from "../../foundation/pause.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { connectSession } from "../../program/http/tunnel.ts";
import { Handshake } from "../../program/tls-policy.ts";
import type { ConnectionFiles } from "../configuration/ca-settings.ts";
import type { IstiodSettings } from "../configuration/xds-settings.ts";
import { type ConnectionTrust, readConnectionTls } from "../identity/ca-channel.ts";
import { readToken } from "../identity/token.ts";

/** The clock of the connection, and which certificates of its files may be used. */
export interface ConnectionPorts {
  readonly clock: () => Date;
  readonly pause: Pause;
  readonly known: ConnectionTrust;
}

const connectMilliseconds = 5_000;
const windowOctets = 1 << 20;

/** The memory of the HTTP/2 session in MiB. The queue of requests has its own bound, which must be reached first. */
const sessionMemory = 256;

const grpcHeaders = {
  ":method": "POST",
  "content-type": "application/grpc",
  te: "trailers",
  "user-agent": "rampart-agent",
};

/**
 * Opens a stream to istiod on a connection of its own. It reads the token, the roots and the client certificate again
 * each time.
 *
 * @throws Error with a sentence for the operator, which has the code of the error and quotes nothing that the peer
 *   has sent.
 */
export async function connectToIstiod(
  settings: IstiodSettings,
  path: string,
  { clock, pause, known }: ConnectionPorts,
  signal: AbortSignal,
) {
  const { address, isPlaintext, headers } = settings;
  const tls = isPlaintext ? {} : await readConnectionTls(filesOf(settings), clock(), known);
  const token = isPlaintext ? undefined : await readToken(settings.token, signal);
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const origin = `${isPlaintext ? "http" : "https"}://${address}`;
  const socket = await connectSession(origin, tls).catch((cause: unknown) => {
    throw unreachable(address, cause);
  });
  const session = connect(origin, {
    ...tls,
    createConnection: () => socket,
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
    throw unreachable(address, state.error ?? cause);
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
    /** The code or message of the first error, if there was one. */
    fault: () => state.error && whyOf(state.error),
    close: () => session.destroy(),
  };
}

/** An open connection to istiod. */
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

/** Resolves once the session is open. Rejects if that fails or takes too long, or the signal aborts. */
async function connected(
  session: ClientHttp2Session,
  wait: Pause,
  signal: AbortSignal,
): Promise<void> {
  const opened = new Promise<true>((resolve) => session.once("connect", () => resolve(true)));
  const isOpen = await waitFor(opened, connectMilliseconds, until(signal, wait));
  if (!isOpen)
    throw new Error(
      Handshake.isUnderWay(session.socket) ? `it ${Handshake.hint}` : "no answer in time",
    );
}

/** A wait that also ends when the signal aborts. */
const until =
  (signal: AbortSignal, wait: Pause): Pause =>
  (milliseconds, done = signal) =>
    wait(milliseconds, AbortSignal.any([signal, done]));

const unreachable = (address: string, cause: unknown): OperatorError =>
  new OperatorError(`istiod at ${address} cannot be reached: ${whyOf(cause)}`, { cause });

const whyOf = (error: unknown): string => errorCode(error) ?? messageOf(error);

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
