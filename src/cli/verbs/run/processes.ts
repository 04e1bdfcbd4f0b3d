import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { isSea } from "node:sea";
import type { OperationLog } from "../../../foundation/event-log.ts";
import { OperatorError } from "../../../foundation/operator-error.ts";
import { type Backoff, backoffMilliseconds } from "../../../foundation/work/backoff.ts";
import { pause } from "../../../foundation/work/pause.ts";
import type { PeerProcesses, Report } from "../../../node/observability/peer-processes.ts";
import { watchSignals } from "../../terminal/signals.ts";
import { type IpcChannel, openIpcChannel } from "./ipc.ts";

/** The time that one process has for its report, and all of them together; a scraper has a timeout. */
const reportMilliseconds = 2000;
const reportsMilliseconds = 4000;

/** The pauses between restarts of a child that does not come to serve again. */
const restarts: Backoff = { firstMilliseconds: 1_000, longestMilliseconds: 30_000 };

/**
 * Runs a verb in several child processes until this process gets a signal; then all of them end as each
 * would alone. A child that exits earlier is restarted. If the first child of a number exits before it has
 * served, all end, because the next one would fail alike. Later the configuration file may be broken, and the
 * others go on serving with the former one.
 *
 * @param argumentsOf The arguments of the child with this index.
 */
export async function runProcesses(
  count: number,
  argumentsOf: (index: number) => readonly string[],
  log: OperationLog,
): Promise<void> {
  const program = isSea() ? [] : [...process.execArgv, ...process.argv.slice(1, 2)];
  const children = new Map<ChildProcess, IpcChannel>();
  const serving = new Set<ChildProcess>();
  const exits = new Set<Promise<void>>();
  const failure = Promise.withResolvers<string>();
  const ending = new AbortController();
  /** How often the child of a number has exited since it served; absent before it has ever served. */
  const exitsSinceServing = new Map<number, number>();

  function start(index: number): void {
    // In a process group of its own, a child gets a Ctrl-C once, from this process.
    const child = spawn(process.execPath, [...program, ...argumentsOf(index)], {
      detached: true,
      serialization: "advanced",
      stdio: ["inherit", "inherit", "inherit", "ipc"],
    });
    const channel = openIpcChannel(child);
    channel.on("serving", () => {
      exitsSinceServing.set(index, 0);
      serving.add(child);
    });
    channel.on("reports-wanted", () => {
      void reportsOf([...children.values()]).then((reports) => channel.send("reports", reports));
    });
    children.set(child, channel);
    const exit = once(child, "exit").then(() => {
      exits.delete(exit);
      children.delete(child);
      serving.delete(child);
      if (ending.signal.aborted) return;
      if (exitsSinceServing.has(index)) void restart(index);
      else failure.resolve("a process exited before it served");
    });
    exits.add(exit);
  }

  async function restart(index: number): Promise<void> {
    const detail = `process ${index + 1} exited and is restarted`;
    log.operation({ event: "process-ended", level: "error", detail });
    const before = exitsSinceServing.get(index) ?? 0;
    exitsSinceServing.set(index, before + 1);
    if (before > 0) await pause(backoffMilliseconds(restarts, before), ending.signal);
    if (!ending.signal.aborted) start(index);
  }

  using watch = watchSignals();
  const reload = (): void => {
    // A process that only begins would die of the signal, and reads the file anyway.
    for (const child of serving) child.kill("SIGHUP");
  };
  process.on("SIGHUP", reload);
  for (let index = 0; index < count; index++) start(index);
  const why = await Promise.race([failure.promise, watch.signal.then(() => undefined)]);
  ending.abort();
  process.off("SIGHUP", reload);
  for (const child of children.keys()) child.kill("SIGTERM");
  await Promise.all(exits);
  if (why) throw new OperatorError(`${why}, and the others were ended`);
}

/** The reports of all processes that answer in time. */
async function reportsOf(channels: readonly IpcChannel[]): Promise<unknown[]> {
  const asked = channels.map((each) => each.request("report-wanted", "report", reportMilliseconds));
  const answered = await Promise.allSettled(asked);
  return answered.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

/** This process as one of several children. It ends itself by SIGTERM when its parent is gone. */
export interface ServingChild {
  readonly peerProcesses: PeerProcesses;
  /** Tells the parent that this process serves. */
  readonly reportServing: () => void;
}

/** @param number Counted from one; the first child rotates. */
export function joinProcesses(number: number): ServingChild {
  const channel = openIpcChannel(process);
  // The channel to the parent must not keep this process alive.
  process.channel?.unref();
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  return {
    reportServing: () => channel.send("serving"),
    peerProcesses: {
      rotates: number === 1,
      share: (own) => {
        channel.on("report-wanted", () => {
          // Without this report the sum lacks one process; a crash would be worse.
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
