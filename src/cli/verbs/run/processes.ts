import { type ChildProcess, spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { Backoff } from "../../../foundation/backoff.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import type { OperationLog } from "../../../foundation/events.ts";
import { pause } from "../../../foundation/pause.ts";
import type { Report } from "../../../program/metrics.ts";
import { Runtime } from "../../../program/runtime.ts";
import { Signals } from "../../terminal/signals.ts";

/** How long all processes together have for their reports, which a scraper awaits. */
const reportsMilliseconds = 4000;

/**
 * Runs a verb in several child processes until SIGINT or SIGTERM; then all end as each would alone. SIGHUP makes them
 * reload. A child that exits is restarted. If the first child of an index exits before it has served, all end, because
 * the next would fail alike. A later child may fail for a broken file: the others go on with the former configuration.
 * @param argumentsOf The arguments of the child with this index, from 0.
 * @throws OperatorError if such a first child fails, and under Deno or Bun.
 */
export async function runProcesses(
  count: number,
  argumentsOf: (index: number) => readonly string[],
  log: OperationLog,
): Promise<void> {
  if (Runtime.other)
    throw new OperatorError(`several processes take Node, and this is ${Runtime.other}`);
  const children = new ChildProcesses(argumentsOf, log);
  using watch = Signals.watch();
  const reload = (): void => children.reload();
  process.on("SIGHUP", reload);
  for (let index = 0; index < count; index++) children.start(index);
  const why = await Promise.race([children.failure, watch.signal.then(() => undefined)]);
  process.off("SIGHUP", reload);
  await children.end();
  if (why) throw new OperatorError(`${why}, and the others were ended`);
}

/**
 * Makes this process one of several children. It sends itself SIGTERM when its parent is gone.
 * @param number Counted from one; the first child rotates, unless the parent has another do so.
 * @returns What the child tells its parent, and how its server learns of the other processes.
 */
export function joinProcesses(number: number) {
  const channel = openIpcChannel(process);
  let rotates = number === 1;
  channel.on("rotates", (content) => {
    rotates = content === true;
  });
  // The channel to the parent must not keep this process alive.
  process.channel?.unref();
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  return {
    /** Tells the parent that this process serves. */
    reportServing: () => channel.send("serving"),
    peerProcesses: {
      rotates: () => rotates,
      share: (own: () => Promise<Report>) => {
        channel.on("report-wanted", () => {
          // If this report fails, the sum lacks one process; a crash would be worse.
          own().then(
            (report) => channel.send("report", report),
            () => {},
          );
        });
        const ask = () => channel.request("reports-wanted", "reports", reportsMilliseconds);
        return async () => (await ask()) as readonly Report[];
      },
    },
  };
}

/** The time that one process has for its report. */
const reportMilliseconds = 2000;

/**
 * The children of a verb, each with an index. A child that exits is restarted, unless the first of its index
 * exits before it has served.
 */
class ChildProcesses {
  readonly #argumentsOf: (index: number) => readonly string[];
  readonly #log: OperationLog;
  readonly #program = isExecutable() ? [] : [...process.execArgv, ...process.argv.slice(1, 2)];
  readonly #channels = new Map<ChildProcess, IpcChannel>();
  readonly #serving = new Map<number, ChildProcess>();
  readonly #exits = new Set<Promise<void>>();
  readonly #failure = Promise.withResolvers<string>();
  readonly #ending = new AbortController();
  /** How often the child of an index has exited since it served; absent before it has ever served. */
  readonly #exitsSinceServing = new Map<number, number>();

  /** @param argumentsOf The arguments of the child with this index. */
  constructor(argumentsOf: (index: number) => readonly string[], log: OperationLog) {
    this.#argumentsOf = argumentsOf;
    this.#log = log;
  }

  /** Resolves with a sentence once the first child of an index has exited before it served. */
  get failure(): Promise<string> {
    return this.#failure.promise;
  }

  start(index: number): void {
    // In a process group of its own, a child gets a Ctrl-C once, from this process.
    const child = spawn(process.execPath, [...this.#program, ...this.#argumentsOf(index)], {
      detached: true,
      serialization: "advanced",
      stdio: ["inherit", "inherit", "inherit", "ipc"],
    });
    this.#channels.set(child, this.#openChannel(child, index));
    const exit = once(child, "exit").then(() => {
      this.#exits.delete(exit);
      this.#forget(child, index);
    });
    this.#exits.add(exit);
  }

  /** Has every serving child reload its configuration. */
  reload(): void {
    // The signal would end a process that is still starting, and it reads the file anyway.
    for (const child of this.#serving.values()) child.kill("SIGHUP");
  }

  /** Ends every child, and waits for all of them. */
  async end(): Promise<void> {
    this.#ending.abort();
    for (const child of this.#channels.keys()) child.kill("SIGTERM");
    await Promise.all(this.#exits);
  }

  #openChannel(child: ChildProcess, index: number): IpcChannel {
    const channel = openIpcChannel(child);
    channel.on("serving", () => {
      this.#exitsSinceServing.set(index, 0);
      this.#serving.set(index, child);
      this.#appoint();
    });
    channel.on("reports-wanted", () => {
      void reportsOf([...this.#channels.values()]).then((all) => channel.send("reports", all));
    });
    return channel;
  }

  #forget(child: ChildProcess, index: number): void {
    this.#channels.delete(child);
    this.#serving.delete(index);
    if (this.#ending.signal.aborted) return;
    if (this.#exitsSinceServing.has(index)) void this.#restart(index);
    else this.#failure.resolve("a process exited before it served");
  }

  /**
   * Chooses which process rotates: the first, or another while the first cannot be restarted, such as for a broken
   * file.
   */
  #appoint(): void {
    const isAway = (this.#exitsSinceServing.get(0) ?? 0) > 1;
    const rotating = isAway ? this.#serving.keys().next().value : 0;
    for (const [index, child] of this.#serving)
      this.#channels.get(child)?.send("rotates", index === rotating);
  }

  async #restart(index: number): Promise<void> {
    const detail = `process ${index + 1} exited and is restarted`;
    this.#log.operation({ event: "process-ended", level: "error", detail });
    const before = this.#exitsSinceServing.get(index) ?? 0;
    this.#exitsSinceServing.set(index, before + 1);
    this.#appoint();
    const { signal } = this.#ending;
    if (before > 0) await pause(Backoff.milliseconds(Backoff.usual.repair, before), signal);
    if (!signal.aborted) this.start(index);
  }
}

/**
 * Whether this is the single executable. Deno and Bun lack `node:sea`, so that a static import would keep them from
 * loading this module.
 */
const isExecutable = (): boolean => process.getBuiltinModule("node:sea")?.isSea() ?? false;

/** Collects the reports of all processes that answer in time. */
async function reportsOf(channels: readonly IpcChannel[]): Promise<unknown[]> {
  const asked = channels.map((each) => each.request("report-wanted", "report", reportMilliseconds));
  const answered = await Promise.allSettled(asked);
  return answered.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

/** A message between the processes of one server. All messages go through their parent. */
interface IpcMessage {
  readonly about: "serving" | "rotates" | "report-wanted" | "report" | "reports-wanted" | "reports";
  readonly content?: unknown;
}

/** One end of the channel between a parent and a child. */
interface IpcChannel {
  readonly send: (about: IpcMessage["about"], content?: unknown) => void;
  readonly on: (about: IpcMessage["about"], listener: (content: unknown) => void) => void;
  /** Sends a request and resolves with the next answer. Rejects when none comes in time. */
  readonly request: (
    wanted: IpcMessage["about"],
    answer: IpcMessage["about"],
    milliseconds: number,
  ) => Promise<unknown>;
}

/** The other process: for a parent the `ChildProcess`, for a child its own `process`. */
interface IpcPeer {
  readonly connected: boolean;
  on(event: "message", listener: (message: IpcMessage) => void): unknown;
  send?(message: IpcMessage, sent: () => void): unknown;
}

function openIpcChannel(peer: IpcPeer): IpcChannel {
  const inbox = new EventEmitter();
  peer.on("message", ({ about, content }) => inbox.emit(about, content));
  const send: IpcChannel["send"] = (about, content) => {
    // A peer that is gone needs no message.
    if (peer.connected) peer.send?.({ about, content }, () => {});
  };
  return {
    send,
    on: (about, listener) => inbox.on(about, listener),
    request: async (wanted, answer, milliseconds) => {
      const answered = once(inbox, answer, { signal: AbortSignal.timeout(milliseconds) });
      send(wanted);
      const [content] = await answered;
      return content;
    },
  };
}
