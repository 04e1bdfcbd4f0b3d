import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  certificateBlocks,
  isCertificateBlocks,
  parsePem,
  toPem,
} from "../../../src/pki/encoding/pem.ts";
import { inHex } from "../../testkit/der/mutation.ts";

const octets = fc.uint8Array({ minLength: 1, maxLength: 300 });
const label = "CERTIFICATE";

test("writes lines of 64 symbols, LF, and a newline at the end, for any length", () => {
  fc.assert(
    fc.property(octets, (bytes) => {
      const lines = toPem(label, bytes).split("\n");
      const body = lines.slice(1, -2);
      expect(lines[0]).toBe("-----BEGIN CERTIFICATE-----");
      expect(lines.slice(-2)).toEqual(["-----END CERTIFICATE-----", ""]);
      expect(body.join("")).toBe(Buffer.from(bytes).toString("base64"));
      expect(body.slice(0, -1).every((line) => line.length === 64)).toBe(true);
      expect(body.at(-1)?.length).toBeGreaterThan(0);
      expect(body.at(-1)?.length).toBeLessThanOrEqual(64);
    }),
  );
});

test.each([47, 48, 49, 95, 96, 97])("writes no empty line after %i octets", (length) => {
  const pem = toPem(label, Buffer.alloc(length, 1));
  expect(pem).not.toContain("\n\n");
  expect(inHex(parsePem(pem, [label]) ?? Buffer.alloc(0))).toBe("01".repeat(length));
});

test("reads back any octets that it wrote", () => {
  fc.assert(
    fc.property(octets, (bytes) => {
      const pem = toPem(label, bytes);
      expect(inHex(parsePem(pem, ["X", label]) ?? Buffer.alloc(0))).toBe(inHex(bytes));
    }),
  );
});

test("refuses two blocks, and a block with anything before, after or inside", () => {
  const stray = fc.constantFrom("x", "-", "=", "\u0000", "\n-----BEGIN CERTIFICATE-----\n");
  fc.assert(
    fc.property(octets, stray, fc.nat(), (bytes, text, n) => {
      const pem = toPem(label, bytes).trimEnd();
      const at = n % (pem.length + 1);
      expect(readsOtherThan(`${pem.slice(0, at)}${text}${pem.slice(at)}`, bytes)).toBe(false);
    }),
    { numRuns: 1000 },
  );
});

/** Whether the parser reads other octets than the text says. An inserted letter may make longer base64. */
function readsOtherThan(pem: string, bytes: Uint8Array): boolean {
  const read = parsePem(pem, [label]);
  if (!read) return false;
  const body = pem.replace(/-----[A-Z ]+-----|\n/g, "");
  return Buffer.from(read).toString("base64") !== body || read.length === bytes.length;
}

test("refuses a block with another label", () => {
  const pem = toPem("PRIVATE KEY", Buffer.from("key"));
  expect(parsePem(pem, [label, "PUBLIC KEY"])).toBeUndefined();
  expect(parsePem(pem, [])).toBeUndefined();
});

describe("certificates in a text", () => {
  const block = (base64: string): string =>
    `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----`;

  test.each<[string, string, readonly string[]]>([
    ["one", block("YQ=="), ["YQ=="]],
    ["two", `${block("YQ==")}\n${block("Yg==")}\n`, ["YQ==", "Yg=="]],
    ["one in short lines", block("Y\nQ\n=\n="), ["YQ=="]],
    ["one of Windows", block("YQ==").replaceAll("\n", "\r\n"), ["YQ=="]],
    [
      "one with white space after its boundaries",
      block("YQ==").replaceAll("-\n", "- \t\n"),
      ["YQ=="],
    ],
  ])("are found, and nothing else is there: %s", (_, text, expected) => {
    expect(certificateBlocks(text)).toEqual(expected);
    expect(isCertificateBlocks(text)).toBe(true);
  });

  test.each<[string, string, readonly string[]]>([
    ["words around it", `first\n${block("YQ==")}\nlast`, ["YQ=="]],
    [
      "a key after it",
      `${block("YQ==")}\n${block("Yg==").replaceAll("CERTIFICATE", "KEY")}`,
      ["YQ=="],
    ],
    [
      "a block that is not closed",
      `${block("YQ==")}\n-----BEGIN CERTIFICATE-----\nYg==\n`,
      ["YQ=="],
    ],
    ["a block without base64, which is a damaged one", block(""), [""]],
  ])("are found among other things: %s", (_, text, expected) => {
    expect(certificateBlocks(text)).toEqual(expected);
    expect(isCertificateBlocks(text)).toBe(false);
  });

  test.each([
    ["nothing", ""],
    ["white space", " \n"],
    ["one that is folded to a line", block("YQ==").replaceAll("\n", " ")],
    ["one with other characters", block("Y.Q=")],
    ["one after a CR alone", `words\r${block("YQ==")}`],
    ["one before a CR alone", `${block("YQ==").trimEnd()}\rwords`],
    ["one after a separator of lines that is not ASCII", `\u2028${block("YQ==")}`],
    ["one with a space inside that is not ASCII", block("YQ\u00a0==")],
    ["one that is indented", `  ${block("YQ==")}`],
    ["one that ends amid a line", `${block("YQ==")}x`],
    ["two on one line", `${block("YQ==")}${block("YQ==")}`],
    ["another label", block("YQ==").replaceAll("CERTIFICATE", "X509 CRL")],
  ])("are not found in %s", (_, text) => {
    expect(certificateBlocks(text)).toEqual([]);
    expect(isCertificateBlocks(text)).toBe(false);
  });
});
