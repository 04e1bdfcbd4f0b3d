import { vi } from "vitest";
import { hangMilliseconds } from "./hang-limit.ts";

/**
 * Repeats the check until it passes. It gives up a little before the test counts as one that hangs, so
 * that the report shows the check's last failure.
 */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: hangMilliseconds - 20_000, interval: 10 });
}
