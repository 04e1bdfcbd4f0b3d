import { beforeAll, beforeEach, vi } from "vitest";

/** The lines that Workers write to the console in the test that runs. The console prints none of the file's. */
export function recordConsoleLines(): string[] {
  const lines: string[] = [];
  beforeAll(() => {
    for (const method of ["log", "warn", "error"] as const) {
      vi.spyOn(console, method).mockImplementation((line: string) => void lines.push(line));
    }
    return () => void vi.restoreAllMocks();
  });
  beforeEach(() => {
    lines.length = 0;
  });
  return lines;
}
