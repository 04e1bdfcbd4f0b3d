import { afterEach, beforeEach, vi } from "vitest";

/** The lines that a Worker writes to its console in the test that runs. The console prints none of them. */
export function recordConsoleLines(): string[] {
  const lines: string[] = [];
  beforeEach(() => {
    lines.length = 0;
    for (const method of ["log", "warn", "error"] as const) {
      vi.spyOn(console, method).mockImplementation((line: string) => void lines.push(line));
    }
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });
  return lines;
}
