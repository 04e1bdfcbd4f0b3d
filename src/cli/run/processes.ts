import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { OperationLog } from "../../foundation/event-log.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import type { PeerProcesses, Report } from "../../node/observability/peer-processes.ts";
import { type IpcChannel, openIpcChannel } from "./ipc.ts";

/** How long a process has to tell of itself, and all of them together; a scraper does not wait for ever. */
const reportMilliseconds = 2000;
const reportsMilliseconds = 4000;

/**
 * Runs a verb in several processes at once until this one is told to end: then all of them end, each
 * as it would alone. One that ends before is started again, unless it has never come to serve: what
 * kept it from that would keep the next one from it, and all end.
 *
 * @param argumentsOf What the process of this number is to do.
 */
export async function runProcesses(
  count: number,
  argumentsOf: (index: number) => readonly string[],
  log: OperationLog,
): Promise<void> {
  const [, program = ""] = process.argv;
  const children = new Map<ChildProcess, IpcChannel>();
  const exits = new Set<Promise<void>>();
  const failure = Promise.withResolvers<string>();
  let isEnding = false;

  function start(index: number): void {
    const options = { detached: true, serialization: "advanced" } as const;
    // In groups of their own, so that a Ctrl-C reaches each of them once, from here.
    const child = fork(program, argumentsOf(index), options);
    const line = openIpcChannel(child);
    let hasServed = false;
    line.when("serving", () => {
      hasServed = true;
    });
    line.when("reports-wanted", () => {
      void reportsOf([...children.values()]).then((reports) => line.tell("reports", reports));
    });
    children.set(child, line);
    const exit = once(child, "exit").then(() => {
      exits.delete(exit);
      children.delete(child);
      if (isEnding) return;
      if (hasServed) replace(index);
      else failure.resolve("a process has ended before it served");
    });
    exits.add(exit);
  }

  function replace(index: number): void {
    const detail = `process ${index + 1} has ended, and is started again`;
    log.operation({ event: "process-ended", level: "error", detail });
    start(index);
  }

  for (let index = 0; index < count; index++) start(index);
  const told = ["SIGTERM", "SIGINT"].map((name) => once(process, name).then(() => undefined));
  const why = await Promise.race([failure.promise, ...told]);
  isEnding = true;
  for (const child of children.keys()) child.kill("SIGTERM");
  await Promise.all(exits);
  if (why) throw new OperatorError(`${why}, and the others with it`);
}

/** What all of them tell; one that does not in time is left out. */
async function reportsOf(lines: readonly IpcChannel[]): Promise<unknown[]> {
  const asked = lines.map((line) => line.ask("report-wanted", "report", reportMilliseconds));
  const told = await Promise.allSettled(asked);
  return told.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

/** One of several processes, which ends as a signal would end it when the one that started it is gone. */
export interface ChildOfSeveral {
  readonly peerProcesses: PeerProcesses;
  /** Tells that it has come to serve. */
  readonly serves: () => void;
}

/** @param number Counted from one; the first is the one that rotates. */
export function joinProcesses(number: number): ChildOfSeveral {
  const line = openIpcChannel(process);
  // The line to the parent is no reason to stay.
  process.channel?.unref();
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  return {
    serves: () => line.tell("serving"),
    peerProcesses: {
      rotates: number === 1,
      share: (own) => {
        line.when("report-wanted", () => {
          // Without a report the sum lacks this process, which is better than to end it.
          own().then(
            (report) => line.tell("report", report),
            () => {},
          );
        });
        const ask = () => line.ask("reports-wanted", "reports", reportsMilliseconds);
        return async () => (await ask()) as readonly Report[];
      },
    },
  };
}
