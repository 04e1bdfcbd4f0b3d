import { vi } from "vitest";
import { pause } from "../../../src/foundation/pause.ts";
import { hangMilliseconds } from "./hang-limit.ts";

/** A little before the test counts as one that hangs, so that the report shows the check's last failure. */
const timeout = hangMilliseconds - 20_000;

const interval = 10;

/** Repeats the check until it passes, less and less often. A test's own timers pass meanwhile. */
export async function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  if (vi.isFakeTimers()) return steadily(check);
  const begun = performance.now();
  for (;;) {
    const passed = performance.now() - begun;
    try {
      return await check();
    } catch (error) {
      if (passed > timeout) throw error;
    }
    await pause(Math.max(interval, passed / 20));
  }
}

/** {@link eventually}, as often at the end as at the beginning. */
export const steadily = <T>(check: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(check, { timeout, interval });
