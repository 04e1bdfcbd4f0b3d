import { expect } from "vitest";
import type { AuditLine } from "./event-recorder.ts";

/** A line of any program's log. */
export type LogLine = Readonly<Record<string, unknown>>;

/** Reads what a program has logged, and requires the schema of every line. */
export function parseLog(text: string): LogLine[] {
  return text.split("\n").filter(Boolean).map(parseLogLine);
}

/** Reads what a verb has logged between its notices for a person, which are no log. */
export function parseVerbLog(text: string): LogLine[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map(parseLogLine);
}

/** Reads a line that has no line break, and requires its schema. */
export function parseLogLine(text: string): LogLine {
  const line = JSON.parse(text) as LogLine;
  expect(Object.keys(line).slice(0, 3)).toEqual(["time", "level", "event"]);
  expect(line).toMatchObject({
    // RFC 3339, in UTC.
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    level: expect.stringMatching(/^(?:info|warning|error)$/),
    event: expect.stringMatching(/^[a-z]+(?:-[a-z]+)*$/),
  });
  return line;
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
