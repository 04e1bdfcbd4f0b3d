import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { isSea } from "node:sea";
import type { OperationLog } from "../../../foundation/events.ts";
import { type Backoff, backoffMilliseconds, pause } from "../../../foundation/pause.ts";
import { type IpcChannel, openIpcChannel } from "./ipc.ts";

/** The time that one process has for its report. */
const reportMilliseconds = 2000;

/** The pauses between restarts of a child that does not come to serve again. */
const restarts: Backoff = { firstMilliseconds: 1_000, longestMilliseconds: 30_000 };

/**
 * The children of a verb, each with an index. A child that exits is restarted, unless the first of its index
 * exits before it has served.
 */
export class ChildProcesses {
  readonly #argumentsOf: (index: number) => readonly string[];
  readonly #log: OperationLog;
  readonly #program = isSea() ? [] : [...process.execArgv, ...process.argv.slice(1, 2)];
  readonly #channels = new Map<ChildProcess, IpcChannel>();
  readonly #serving = new Set<ChildProcess>();
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

  /** Has every child that serves read its configuration again. */
  reload(): void {
    // A process that only begins would die of the signal, and reads the file anyway.
    for (const child of this.#serving) child.kill("SIGHUP");
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
      this.#serving.add(child);
    });
    channel.on("reports-wanted", () => {
      void reportsOf([...this.#channels.values()]).then((all) => channel.send("reports", all));
    });
    return channel;
  }

  #forget(child: ChildProcess, index: number): void {
    this.#channels.delete(child);
    this.#serving.delete(child);
    if (this.#ending.signal.aborted) return;
    if (this.#exitsSinceServing.has(index)) void this.#restart(index);
    else this.#failure.resolve("a process exited before it served");
  }

  async #restart(index: number): Promise<void> {
    const detail = `process ${index + 1} exited and is restarted`;
    this.#log.operation({ event: "process-ended", level: "error", detail });
    const before = this.#exitsSinceServing.get(index) ?? 0;
    this.#exitsSinceServing.set(index, before + 1);
    const { signal } = this.#ending;
    if (before > 0) await pause(backoffMilliseconds(restarts, before), signal);
    if (!signal.aborted) this.start(index);
  }
}

/** The reports of all processes that answer in time. */
async function reportsOf(channels: readonly IpcChannel[]): Promise<unknown[]> {
  const asked = channels.map((each) => each.request("report-wanted", "report", reportMilliseconds));
  const answered = await Promise.allSettled(asked);
  return answered.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}
