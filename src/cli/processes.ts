import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Obstacle } from "./obstacle.ts";

/**
 * Runs a verb in several processes at once until one ends or this one is told to: then all of them
 * end, each as it would alone.
 *
 * @param argumentsOf What the process of this number is to do.
 */
export async function runProcesses(
  count: number,
  argumentsOf: (index: number) => readonly string[],
): Promise<void> {
  const [, program = ""] = process.argv;
  const children = Array.from({ length: count }, (_, index) =>
    // In groups of their own, so that a Ctrl-C reaches each of them once, from here.
    fork(program, argumentsOf(index), { detached: true }),
  );
  const exits = children.map((child) => once(child, "exit"));
  const told = ["SIGTERM", "SIGINT"].map((name) => once(process, name).then(() => undefined));
  const early = await Promise.race([...exits, ...told]);
  for (const child of children) end(child);
  await Promise.all(exits);
  if (early) throw new Obstacle("one of the processes has ended, and the others with it");
}

function end(child: ChildProcess): void {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
}

/** Ends this process as a signal would when the one that started it is gone. */
export function endWithParent(): void {
  // The line to the parent is no reason to stay.
  process.channel?.unref();
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
}
