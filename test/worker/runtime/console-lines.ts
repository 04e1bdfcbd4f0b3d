import { afterEach, beforeEach, vi } from "vitest";
import type { AuditLine } from "../../testkit/log/event-recorder.ts";
import { parseLogLine } from "../../testkit/log/log-lines.ts";

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

/** Takes every line, and returns the audit events of calls as they were before they became lines. */
export function takeAuditsOf(lines: string[]): AuditLine[] {
  const events = lines.splice(0).map(parseLogLine);
  const audits = events.filter(({ event }) =>
    ["create-certificate", "create-token"].includes(`${event}`),
  );
  // `parseLogLine` has checked the time and the level.
  return audits.map(({ time, level, ...event }) => event);
}
