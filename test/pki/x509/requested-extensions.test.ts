import { describe, expect, test } from "vitest";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { readRequestedExtensions } from "../../../src/pki/x509/requested-extensions.ts";
import { der, hex, type Octets } from "../../testkit/der/mutation.ts";
import { buildCsr, csrPem, generateSigner } from "../../testkit/pki/csr.ts";

const signer = generateSigner("EC-P256");

const pemWith = (...attributes: Octets[]): string =>
  csrPem(buildCsr(signer, { attributes: der(0xa0, ...attributes) }));

const extension = (oid: string, value: Octets): Octets =>
  der(0x30, der(0x06, hex(oid)), der(0x04, value));
const values = (...each: Octets[]): Octets =>
  der(0x30, der(0x06, hex("2a864886f70d01090e")), der(0x31, ...each));
const asks = (...extensions: Octets[]): Octets => values(der(0x30, ...extensions));
const name = (tag: number, text: string): Octets => der(tag, Buffer.from(text, "latin1"));
const names = (...each: Octets[]): Octets => extension("551d11", der(0x30, ...each));

const uri = name(0x86, "spiffe://cluster.local/ns/shop/sa/web");
const dns = name(0x82, "web.shop.svc");

test("of a CSR without attributes are none", () => {
  expect(readRequestedExtensions(pemWith())).toEqual({
    uris: [],
    dnsNames: [],
    hasOtherNames: false,
    hasOtherExtensions: false,
  });
});

test("are its URIs and DNS names, each once", () => {
  expect(readRequestedExtensions(pemWith(asks(names(uri, dns, dns))))).toEqual({
    uris: ["spiffe://cluster.local/ns/shop/sa/web"],
    dnsNames: ["web.shop.svc"],
    hasOtherNames: false,
    hasOtherExtensions: false,
  });
});

test.each([
  ["an address", name(0x87, "\x7f\x00\x00\x01")],
  ["an e-mail address", name(0x81, "a@b.test")],
  ["another name", der(0xa0, der(0x06, hex("2a03")), der(0xa0, der(0x0c, hex("61"))))],
])("tell of %s", (_, other) => {
  expect(readRequestedExtensions(pemWith(asks(names(uri, other)))).hasOtherNames).toBe(true);
});

const serverAuth = der(0x06, hex("2b06010505070301"));
const clientAuth = der(0x06, hex("2b06010505070302"));
const codeSigning = der(0x06, hex("2b06010505070303"));

test.each([
  ["the usages of a TLS peer", false, extension("551d0f", hex("030205a0"))],
  ["a KeyUsage that signs certificates", true, extension("551d0f", hex("03020204"))],
  ["a KeyUsage of two octets", true, extension("551d0f", hex("0303078080"))],
  ["the purposes of a TLS peer", false, extension("551d25", der(0x30, serverAuth, clientAuth))],
  ["a further purpose", true, extension("551d25", der(0x30, serverAuth, codeSigning))],
  ["an end entity", false, extension("551d13", hex("3000"))],
  ["a CA", true, extension("551d13", hex("30030101ff"))],
  ["name constraints", true, extension("551d1e", hex("3000"))],
  ["an identifier of its key", true, extension("551d0e", hex("040161"))],
  ["an unknown extension", true, extension("2a03", hex("0500"))],
])("with %s: other extensions %s", (_, isOther, extra) => {
  expect(readRequestedExtensions(pemWith(asks(names(uri), extra))).hasOtherExtensions).toBe(
    isOther,
  );
});

describe("a CSR in which two readers may find other names is refused:", () => {
  test.each<[string, Octets[]]>([
    ["the attribute twice", [asks(names(uri)), asks(names(dns))]],
    ["two values of the attribute", [values(der(0x30, names(uri)), der(0x30, names(dns)))]],
    ["no value of the attribute", [values()]],
    ["the extension twice", [asks(names(uri), names(dns))]],
    ["a second attribute", [asks(names(uri)), der(0x30, der(0x06, hex("2a03")), der(0x31))]],
    ["another attribute", [der(0x30, der(0x06, hex("2a03")), der(0x31, der(0x30, names(uri))))]],
    ["octets behind the names", [asks(extension("551d11", Buffer.concat([der(0x30, uri), dns])))]],
    ["octets behind a usage", [asks(names(uri), extension("551d0f", hex("030205a00500")))]],
    [
      "octets behind the attribute's set",
      [der(0x30, der(0x06, hex("2a864886f70d01090e")), der(0x31, der(0x30, names(uri))), dns)],
    ],
  ])("%s", (_, attributes) => {
    expect(() => readRequestedExtensions(pemWith(...attributes))).toThrow(DerError);
  });

  test("two blocks of PEM", () => {
    expect(() => readRequestedExtensions(pemWith() + pemWith())).toThrow(DerError);
  });
});
