import { expect, test } from "vitest";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import { EventLog } from "../../../src/ca/issuance/event-log.ts";
import { parseLogLine } from "../../testkit/log/log-lines.ts";

const time = new Date("2026-11-21T12:00:00Z");

test.each<[AuditEvent["outcome"], string]>([
  ["issued", "info"],
  ["refused", "warning"],
  ["failed", "error"],
])(
  "writes a request that was %s as a line of level %s, on the stream of the audit trail",
  (outcome, level) => {
    const lines: string[] = [];
    const streams: string[] = [];
    const log = EventLog.create(
      () => time,
      (line, stream) => {
        lines.push(line);
        streams.push(stream);
      },
    );
    const notAfter = new Date("2026-11-22T12:00:00Z");
    const dnsNames = ["a.test"];
    log.audit({ event: "create-certificate", outcome, requestId: "r1", notAfter, dnsNames });
    expect(streams).toEqual(["info"]);
    expect(lines.map(parseLogLine)).toEqual([
      {
        time: "2026-11-21T12:00:00.000Z",
        level,
        event: "create-certificate",
        outcome,
        requestId: "r1",
        notAfter: "2026-11-22T12:00:00.000Z",
        dnsNames: ["a.test"],
      },
    ]);
  },
);
