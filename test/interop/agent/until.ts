import { setTimeout as sleep } from "node:timers/promises";

/** Polls until the condition holds. @throws Error after this many seconds. */
export async function until(
  what: string,
  seconds: number,
  look: () => Promise<boolean> | boolean,
): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await sleep(100);
  }
}
