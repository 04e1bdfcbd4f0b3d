import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { toSpiffeBundle } from "../../../src/pki/authority/spiffe-bundle.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { childrenOf, der, elementAt, hex, type Octets } from "../../testkit/der/mutation.ts";

const pem = readFileSync("test/vectors/istio-cacerts-ec/ecc-root-cert.pem", "utf8");
const root = Buffer.from(new X509Certificate(pem).raw);

const withFields = (change: (fields: readonly Octets[]) => readonly Octets[]): Octets =>
  der(0x30, der(0x30, ...change(childrenOf(elementAt(root, [0])))), ...childrenOf(root).slice(1));

test("reads a root of version 1, which has no extensions", async () => {
  const { toBeSigned } = Certificate.parse(root);
  expect(toBeSigned.version).toBe(1);
  expect(toBeSigned.extensions.hasUnknown).toBe(false);
  expect(toBeSigned.extensions.basicConstraints).toBeUndefined();
  const { keys } = await toSpiffeBundle([root], 1, 60);
  expect(keys).toMatchObject([{ kty: "EC", crv: "P-256" }]);
});

test("the edits of these tests keep a certificate valid where they change nothing", () => {
  expect(withFields((fields) => fields)).toEqual(root);
});

test("refuses an encoded version 1, version 2 and version 4", () => {
  for (const version of ["a003020100", "a003020101", "a003020103"]) {
    const changed = withFields((fields) => [hex(version), ...fields]);
    expect(() => Certificate.parse(changed)).toThrow(DerError);
  }
});

test("refuses a certificate of version 3 without extensions, and of version 1 with them", () => {
  const version3 = withFields((fields) => [hex("a003020102"), ...fields]);
  expect(() => Certificate.parse(version3)).toThrow(DerError);
  const extended = withFields((fields) => [...fields, hex("a3023000")]);
  expect(() => Certificate.parse(extended)).toThrow(DerError);
});

test("refuses unique identifiers, which only version 2 has", () => {
  for (const identifier of ["81020000", "82020000"]) {
    const changed = withFields((fields) => [...fields, hex(identifier)]);
    expect(() => Certificate.parse(changed)).toThrow(DerError);
  }
});
