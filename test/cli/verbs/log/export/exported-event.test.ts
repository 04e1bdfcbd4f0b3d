import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { LogEntry } from "../../../../../src/ca/issuance/log-entry.ts";
import { loggedEntry } from "../../../../../src/cli/verbs/log/entry.ts";
import {
  exportedEntry,
  exportedLine,
  ocsfPaths,
  toOcsf,
  toOtlp,
} from "../../../../../src/cli/verbs/log/export/exported-event.ts";
import { Tile } from "../../../../../src/tlog/tile.ts";
import { tokenEntry } from "../../../../testkit/log/token-entry.ts";
import { startLoggedCa } from "../../../../testkit/tlog/logged-ca.ts";

const eventOf = (octets: Uint8Array<ArrayBuffer>, idx: number) =>
  exportedEntry("log.example.com/2026/0", { idx, octets, ...loggedEntry(LogEntry.parse(octets)) });

async function entries() {
  const ca = await startLoggedCa();
  try {
    await ca.issue();
    await ca.log.publish();
    const bundle = ca.objects.stored.get("tile/entries/000.p/2") ?? new Uint8Array();
    return [...Tile.parseBundle(bundle, 2), LogEntry.format(tokenEntry())].map((each) =>
      each.slice(),
    );
  } finally {
    ca.end();
  }
}

const refused = JSON.stringify({
  time: "2026-11-21T12:00:00.250Z",
  event: "create-token",
  outcome: "refused",
  reason: "credential-rejected",
  check: "audience",
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  peer: "192.0.2.7",
  requestId: "r1",
});

test("events of OCSF have what their classes require, and every field of a line", async () => {
  const [authority, certificate, token] = (await entries()).map(eventOf);
  const line = exportedLine(refused);
  if (!authority || !certificate || !token || !line) throw new Error("not all events");
  expect(toOcsf(authority)).toMatchObject({
    class_uid: 3004,
    type_uid: 300401,
    entity: { name: "spiffe://cluster.local", uid: expect.any(String), type_id: 99 },
  });
  const octets = (await entries())[1] ?? new Uint8Array();
  const leaf = LogEntry.certificateOf(LogEntry.parse(octets));
  expect(leaf && new X509Certificate(leaf).issuer).toBe("O=cluster.local");
  expect(toOcsf(certificate)).toMatchObject({
    category_uid: 3,
    class_uid: 3002,
    activity_id: 1,
    type_uid: 300201,
    severity_id: 1,
    status_id: 1,
    time: expect.any(Number),
    metadata: {
      version: "1.9.0",
      uid: "log.example.com/2026/0#1",
      log_name: "log.example.com/2026/0",
      sequence: 1,
      product: { name: "Rampart", vendor_name: "Rampart", version: expect.any(String) },
    },
    user: { name: "spiffe://cluster.local/ns/foo/sa/bar" },
    service: { name: "Rampart" },
    certificate: {
      issuer: "O=cluster.local",
      serial_number: certificate.fields["serial"],
      expiration_time: Date.parse(String(certificate.fields["notAfter"])),
      fingerprints: [{ algorithm_id: 3, value: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    },
    src_endpoint: { name: "bar-0" },
  });
  expect(toOcsf(token)).toMatchObject({
    class_uid: 3002,
    authentication_token: { type_id: 3, expiration_time: Date.parse("2026-11-21T12:05:00Z") },
    unmapped: { serial: "0123456789abcdef0123456789abcdef01" },
  });
  expect(toOcsf(line)).toMatchObject({
    class_uid: 3002,
    status_id: 2,
    severity_id: 2,
    status_code: "credential-rejected",
    status_detail: "audience",
    user: { name: "unknown" },
    src_endpoint: { ip: "192.0.2.7" },
    metadata: { correlation_uid: "r1", uid: expect.stringMatching(/^[0-9a-f]{64}$/) },
  });
  for (const event of [authority, certificate, token, line]) {
    const text = JSON.stringify(toOcsf(event));
    const texts = Object.values(event.fields).filter((value) => typeof value === "string");
    const lost = texts.filter(
      (value) => !text.includes(JSON.stringify(value)) && !text.includes(`${Date.parse(value)}`),
    );
    expect(lost).toEqual([]);
  }
});

test("the names of OCSF are paths of its own attributes", () => {
  // Of OCSF 1.9.0: the attributes of the two classes that are objects, and those that are values.
  const objects =
    "metadata user certificate authentication_token session actor src_endpoint entity";
  const values = "time status_code status_detail message";
  const roots = new Set(
    Object.values(ocsfPaths).flatMap((paths) =>
      Object.values(paths).map((path) => path.split(".")[0]),
    ),
  );
  expect([...roots].toSorted()).toEqual(`${objects} ${values}`.split(" ").toSorted());
});

test("a record of OTLP has the trace of its line, and values of each type", () => {
  const line = exportedLine(refused);
  if (!line) throw new Error("no event");
  const fields = {
    text: "a",
    whole: 7,
    part: 0.5,
    yes: true,
    none: null,
    list: [1],
    in: { b: "c" },
  };
  const request = JSON.parse(JSON.stringify(toOtlp([line], () => fields, new Date(1))));
  const [record] = request.resourceLogs[0].scopeLogs[0].logRecords;
  expect(record).toMatchObject({
    timeUnixNano: "1795262400250000000",
    observedTimeUnixNano: "1000000",
    severityNumber: 13,
    eventName: "rampart.token.refused",
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
  });
  expect(record.body.kvlistValue.values.map(({ value }: { value: object }) => value)).toEqual([
    { stringValue: "a" },
    { intValue: "7" },
    { doubleValue: 0.5 },
    { boolValue: true },
    {},
    { arrayValue: { values: [{ intValue: "1" }] } },
    { kvlistValue: { values: [{ key: "b", value: { stringValue: "c" } }] } },
  ]);
});

test.each([
  ["no JSON", "text"],
  ["another event", '{"event":"authority-minted","time":"2026-11-21T12:00:00Z"}'],
  ["what the log has", refused.replace("refused", "issued")],
  ["no time", refused.replace("2026-11-21T12:00:00.250Z", "yesterday")],
  ["two members of one name", refused.replace("{", '{"outcome":"issued",')],
])("a line with %s is no event", (_, text) => {
  expect(exportedLine(text)).toBeUndefined();
});
