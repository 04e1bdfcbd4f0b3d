import { expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/http/json-fetch.ts";
import { toPem } from "../../../src/pki/encoding/pem.ts";
import { listsPem, parseRevocationLists } from "../../../src/program/bundle/revocation-lists.ts";
import { createListAuthority } from "../../testkit/pki/revocation-list.ts";

const a = await createListAuthority();
const one = await a.list({ number: 7, revoked: ["01", "02"] });

test("are read with issuer, times and number, and written again", async () => {
  const [first, second] = parseRevocationLists(`${one}\n${await a.list()}`);
  expect(first).toMatchObject({
    number: 7n,
    thisUpdate: new Date("2026-06-01T11:00:00Z"),
    nextUpdate: new Date("2026-06-01T13:00:00Z"),
    hasUnknownCritical: false,
  });
  expect(first?.authorityKeyIdentifier).toHaveLength(20);
  expect(first?.entries?.length).toBeGreaterThan(0);
  expect(second?.entries).toBeUndefined();
  expect(first && listsPem([first])).toBe(one);
});

const block = (body: string) => `-----BEGIN X509 CRL-----\n${body}\n-----END X509 CRL-----\n`;

test.each([
  ["nothing", ""],
  ["a page", "<html></html>"],
  ["a certificate", a.ca.pem],
  ["a list beside a certificate", `${one}${a.ca.pem}`],
  ["a list whose last line is missing", one.slice(0, -20)],
  ["a list that is cut", block(one.split("\n").slice(1, 3).join("\n"))],
  ["no base64", block("====")],
  ["no DER", block("MQ==")],
  ["an octet after a list", toPem("X509 CRL", Buffer.concat([der(one), Buffer.of(0)]))],
  ["too many lists", one.repeat(101)],
])("%s is refused", (_what, text) => {
  expect(() => parseRevocationLists(text)).toThrow(FetchError);
});

function der(pem: string): Buffer {
  return Buffer.from(pem.replace(/-----.*-----|\s/g, ""), "base64");
}
