import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { generateSubjectKey } from "../../../src/agent/identity/x509-svid.ts";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { parseSpiffeBundle } from "../../../src/program/bundle/spiffe-bundle.ts";
import { parseCertificates } from "../../../src/program/files/pem-file.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const authority = await createTestAuthority("a");
const other = await createTestAuthority("b");
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const [leaf] = parseCertificates(await authority.issue(workload("foo", "x"), key.publicKey));
const x5c = authority.certificate.raw.toString("base64");
const longer = Buffer.concat([authority.certificate.raw, Buffer.alloc(1)]).toString("base64");
const entry = { use: "x509-svid", kty: "EC", x5c: [x5c] };

const bundle = (keys: unknown, more: object = {}): string => JSON.stringify({ keys, ...more });
const subjects = (text: string): string[] =>
  parseSpiffeBundle(text).roots.map(({ subject }) => subject);

test("a bundle has its sequence, its hint and its roots in their order", () => {
  const second = { ...entry, x5c: [other.certificate.raw.toString("base64")] };
  const text = bundle([second, entry], { spiffe_sequence: 7, spiffe_refresh_hint: 30 });
  expect(parseSpiffeBundle(text)).toMatchObject({ sequence: 7, refreshSeconds: 30 });
  expect(subjects(text)).toEqual(["O=b", "O=a"]);
});

test("a bundle may have a root of version 1, such as Istio's sample, and no other certificate of that version", async () => {
  const pem = await readFile("test/vectors/istio-cacerts-ec/ecc-root-cert.pem", "utf8");
  const [root] = parseCertificates(pem);
  const raw = root?.raw ?? Buffer.alloc(0);
  expect(root?.ca).toBe(false);
  const published = (der: Buffer) => bundle([{ ...entry, x5c: [der.toString("base64")] }]);
  expect(parseSpiffeBundle(published(raw)).roots).toHaveLength(1);
  const issuedByAnother = Buffer.from(raw);
  // The last letter of the issuer's "CN=Root CA", which comes before the subject's.
  issuedByAnother[raw.indexOf("Root CA") + 6] = "B".charCodeAt(0);
  expect(() => parseSpiffeBundle(published(issuedByAnother))).toThrow(FetchError);
});

// SPIFFE Trust Domain and Bundle §4.1.1 recommends a sequence, and §4.1.2 five minutes.
test("a bundle need not have a sequence or a hint", () => {
  expect(parseSpiffeBundle(bundle([entry]))).toMatchObject({ sequence: 0, refreshSeconds: 300 });
});

test.each([
  [0, 1],
  [1e9, 86_400],
])("a hint of %d s counts as %d s", (hint, seconds) => {
  const text = bundle([entry], { spiffe_refresh_hint: hint });
  expect(parseSpiffeBundle(text).refreshSeconds).toBe(seconds);
});

test.each<[string, object]>([
  ["of another use", { use: "jwt-svid", kty: "EC", kid: "1" }],
  ["of another use with a certificate that does not parse", { use: "wit-svid", x5c: ["AAAA"] }],
  ["without a use", { kty: "EC", x5c: ["AAAA"] }],
  ["without a certificate", { use: "x509-svid", kty: "EC" }],
])("a key %s is ignored, as the standard demands", (_, ignored) => {
  expect(subjects(bundle([ignored, entry]))).toEqual(["O=a"]);
});

test("a bundle without keys is valid, and withdraws its trust domain", () => {
  expect(subjects(bundle([]))).toEqual([]);
});

test.each<[string, string]>([
  ["garbage", "<html>"],
  ["an object without keys", "{}"],
  ["keys that are no list", bundle({})],
  ["a key that is null", bundle([null, entry])],
  ["a use that is no text", bundle([{ use: 1 }, entry])],
  ["a certificate that does not parse", bundle([{ ...entry, x5c: ["AAAA"] }])],
  ["a certificate in base64url", bundle([{ ...entry, x5c: [`-${x5c.slice(1)}`] }])],
  ["a certificate with an octet after it", bundle([{ ...entry, x5c: [longer] }])],
  ["a certificate that is no text", bundle([{ ...entry, x5c: [1] }])],
  ["a certificate that is not in a list", bundle([{ ...entry, x5c }])],
  ["an empty chain", bundle([{ ...entry, x5c: [] }])],
  ["a chain of two", bundle([{ ...entry, x5c: [x5c, x5c] }])],
  ["a certificate that is not a CA's", bundle([{ ...entry, x5c: [leaf?.raw.toString("base64")] }])],
  ["a sequence that is no number", bundle([entry], { spiffe_sequence: "7" })],
  ["a negative sequence", bundle([entry], { spiffe_sequence: -1 })],
  ["a sequence beyond 2^53", bundle([entry], { spiffe_sequence: 2 ** 53 })],
  ["a hint that is no whole number", bundle([entry], { spiffe_refresh_hint: 0.5 })],
])("%s is refused", (_, text) => {
  expect(() => parseSpiffeBundle(text)).toThrow(FetchError);
});

test("the sentence about too many keys has the limit", () => {
  const text = bundle(Array.from({ length: 101 }, () => entry));
  expect(() => parseSpiffeBundle(text)).toThrow("keys must have at most 100 items");
});
