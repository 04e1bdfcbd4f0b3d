import { expect, test } from "vitest";
import { formatRevoked, revokedTable } from "../../src/config/revoked.ts";

const since = "2026-11-21T12:00:00Z";
const until = "2026-11-22T12:00:00Z";
const authority = "ab".repeat(20);
const entry = { authority, serials: ["01ab", "00f1"], since, until };

test("reads a list, and the same as JSON in a text", () => {
  const expected = [
    {
      authority,
      revokedAt: new Date(since),
      knownFrom: new Date(since),
      reason: "unspecified",
      certificates: new Map([
        ["01ab", Date.parse(until) / 1000],
        ["00f1", Date.parse(until) / 1000],
      ]),
    },
  ];
  expect(revokedTable.parse([entry])).toEqual(expected);
  expect(revokedTable.parse(JSON.stringify([entry]))).toEqual(expected);
  expect(revokedTable.parse([{ ...entry, since: new Date(since) }])).toEqual(expected);
});

test.each([
  ["01AB", "01ab"],
  ["1ab", "01ab"],
  ["01:ab", "01ab"],
  ["0001", "01"],
  ["f1", "00f1"],
  ["00f1", "00f1"],
])("takes the serial number %s for the content octets %s", (text, content) => {
  const [revocation] = revokedTable.parse([{ ...entry, serials: [text] }]);
  expect([...(revocation?.certificates.keys() ?? [])]).toEqual([content]);
});

test.each<[string, unknown, string]>([
  ["no authority", [{ ...entry, authority: undefined }], "invalid_type"],
  ["the beginning of an id", [{ ...entry, authority: "ab".repeat(8) }], "must be the id"],
  ["no serial number", [{ ...entry, serials: [] }], "too_small"],
  ["101 serial numbers", [{ ...entry, serials: Array(101).fill("01") }], "too_big"],
  ["the serial number 0", [{ ...entry, serials: ["00"] }], "must be a serial number"],
  ["a word for a serial number", [{ ...entry, serials: ["all"] }], "must be a serial number"],
  ["a serial number of 21 octets", [{ ...entry, serials: ["ab".repeat(21)] }], "must be a serial"],
  ["no beginning", [{ ...entry, since: undefined }], "invalid_type"],
  ["no end", [{ ...entry, until: undefined }], "invalid_type"],
  ["an end that is no instant", [{ ...entry, until: "tomorrow" }], "must be an instant"],
  ["a hold", [{ ...entry, reason: "certificateHold" }], "invalid_value"],
  ["an unknown member", [{ ...entry, serial: "01" }], "unrecognized_keys"],
  ["a serial number alone", ["01ab"], "invalid_type"],
  ["no list", "01ab", "must be JSON"],
])("refuses %s", (_, value, message) => {
  const { error } = revokedTable.safeParse(value);
  const said = error?.issues.map((issue) => `${issue.code} ${issue.message}`).join();
  expect(said).toContain(message);
});

test("a revocation survives being written and read", () => {
  const [content] = revokedTable.parse([{ ...entry, reason: "keyCompromise", why: 'case "117"' }]);
  if (!content) throw new Error("no revocation");
  expect(formatRevoked(content)).toBe(
    `{ authority = "${authority}", serials = ["01ab", "f1"], since = "${since}", until = "${until}", reason = "keyCompromise", why = "case \\"117\\"" }`,
  );
  expect(revokedTable.parse([{ ...entry, serials: ["01ab", "f1"] }])).toEqual(
    revokedTable.parse([entry]),
  );
});
