import { OperatorError } from "../../../foundation/errors.ts";
import type { OperationLog } from "../../../foundation/events.ts";
import type { PeerProcesses, Report } from "../../../program/metrics.ts";
import { watchSignals } from "../../../program/signals.ts";
import { ChildProcesses } from "./child-processes.ts";
import { openIpcChannel } from "./ipc.ts";

/** The time that all processes together have for their reports; a scraper has a timeout. */
const reportsMilliseconds = 4000;

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
  const children = new ChildProcesses(argumentsOf, log);
  using watch = watchSignals();
  const reload = (): void => children.reload();
  process.on("SIGHUP", reload);
  for (let index = 0; index < count; index++) children.start(index);
  const why = await Promise.race([children.failure, watch.signal.then(() => undefined)]);
  process.off("SIGHUP", reload);
  await children.end();
  if (why) throw new OperatorError(`${why}, and the others were ended`);
}

/** This process as one of several children. It ends itself by SIGTERM when its parent is gone. */
interface ServingChild {
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
