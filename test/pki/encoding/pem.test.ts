import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { inHex } from "../../testkit/der/mutation.ts";

const octets = fc.uint8Array({ minLength: 1, maxLength: 300 });
const label = "CERTIFICATE";

test("writes any octets in lines of 64 symbols, LF, and a newline at the end, and reads them back", () => {
  fc.assert(
    fc.property(octets, (bytes) => {
      const pem = Pem.format(label, bytes);
      const lines = pem.split("\n");
      const body = lines.slice(1, -2);
      expect(lines[0]).toBe("-----BEGIN CERTIFICATE-----");
      expect(lines.slice(-2)).toEqual(["-----END CERTIFICATE-----", ""]);
      expect(body.join("")).toBe(Buffer.from(bytes).toString("base64"));
      expect(body.slice(0, -1).every((line) => line.length === 64)).toBe(true);
      expect(body.at(-1)?.length).toBeGreaterThan(0);
      expect(body.at(-1)?.length).toBeLessThanOrEqual(64);
      expect(inHex(Pem.parse(pem, ["X", label]) ?? Buffer.alloc(0))).toBe(inHex(bytes));
    }),
  );
});

test.each([47, 48, 49, 95, 96, 97])("writes no empty line after %i octets", (length) => {
  const pem = Pem.format(label, Buffer.alloc(length, 1));
  expect(pem).not.toContain("\n\n");
  expect(inHex(Pem.parse(pem, [label]) ?? Buffer.alloc(0))).toBe("01".repeat(length));
});

test("refuses two blocks, and a block with anything before, after or inside", () => {
  const stray = fc.constantFrom("x", "-", "=", "\u0000", "\n-----BEGIN CERTIFICATE-----\n");
  fc.assert(
    fc.property(octets, stray, fc.nat(), (bytes, text, n) => {
      const pem = Pem.format(label, bytes).trimEnd();
      const at = n % (pem.length + 1);
      expect(readsOtherThan(`${pem.slice(0, at)}${text}${pem.slice(at)}`, bytes)).toBe(false);
    }),
    { numRuns: 1000 },
  );
});

/** Whether the parser reads other octets than the text says. An inserted letter may make longer base64. */
function readsOtherThan(pem: string, bytes: Uint8Array): boolean {
  const read = Pem.parse(pem, [label]);
  if (!read) return false;
  const body = pem.replace(/-----[A-Z ]+-----|\n/g, "");
  return Buffer.from(read).toString("base64") !== body || read.length === bytes.length;
}

test("refuses a block with another label", () => {
  const pem = Pem.format("PRIVATE KEY", Buffer.from("key"));
  expect(Pem.parse(pem, [label, "PUBLIC KEY"])).toBeUndefined();
  expect(Pem.parse(pem, [])).toBeUndefined();
});

test("stops at a block more than the maximum, whatever comes after it", () => {
  const text = "-----BEGIN A-----\n-----END A-----\n".repeat(3);
  expect(Pem.blocks(text, 3)).toHaveLength(3);
  expect(() => Pem.blocks(`${text}-----BEGIN`, 2)).toThrow("has more than 2 PEM blocks");
});

describe("certificates in a text", () => {
  const block = (base64: string): string =>
    `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----`;

  test.each<[string, string, readonly string[]]>([
    ["one", block("YQ=="), ["YQ=="]],
    ["two", `${block("YQ==")}\n${block("Yg==")}\n`, ["YQ==", "Yg=="]],
    ["one in short lines", block("Y\nQ\n=\n="), ["YQ=="]],
    ["one with words around it", `first \u00fc\n${block("YQ==")}\nlast`, ["YQ=="]],
    ["one of Windows", block("YQ==").replaceAll("\n", "\r\n"), ["YQ=="]],
    [
      "one with white space after its boundaries",
      block("YQ==").replaceAll("-\n", "- \t\n"),
      ["YQ=="],
    ],
  ])("are found, and nothing else is there: %s", (_, text, expected) => {
    expect(Pem.certificates(text)).toEqual(expected);
    expect(Pem.isCertificates(text)).toBe(true);
  });

  test.each<[string, string, readonly string[]]>([
    [
      "a key after it",
      `${block("YQ==")}\n${block("Yg==").replaceAll("CERTIFICATE", "KEY")}`,
      ["YQ=="],
    ],
    ["one with other characters", block("Y.Q="), ["Y.Q="]],
    ["one with a space inside that is not ASCII", block("YQ\u00a0=="), ["YQ\u00a0=="]],
    ["a block without base64, which is a damaged one", block(""), [""]],
  ])("are found among other things: %s", (_, text, expected) => {
    expect(Pem.certificates(text)).toEqual(expected);
    expect(Pem.isCertificates(text)).toBe(false);
  });

  test.each([
    ["nothing", ""],
    ["white space", " \n"],
    ["one that is folded to a line", block("YQ==").replaceAll("\n", " ")],
    [
      "one before a block that is not closed",
      `${block("YQ==")}\n-----BEGIN CERTIFICATE-----\nYg==\n`,
    ],
    ["one before a mention of its boundary", `${block("YQ==")}\n# -----BEGIN CERTIFICATE-----\n`],
    ["one within another", block(`YQ==\n${block("YQ==")}`)],
    ["one with the end of another label", block("YQ==").replace("END CERTIFICATE", "END KEY")],
    ["UTF-16", Buffer.from(block("YQ=="), "utf16le").toString("latin1")],
    [
      "UTF-16 of the other order",
      Buffer.from(block("YQ=="), "utf16le").swap16().toString("latin1"),
    ],
    ["1,001 of them", `${block("YQ==")}\n`.repeat(1001)],
    ["one after a CR alone", `words\r${block("YQ==")}`],
    ["one before a CR alone", `${block("YQ==").trimEnd()}\rwords`],
    ["one after a separator of lines that is not ASCII", `\u2028${block("YQ==")}`],
    ["one that is indented", `  ${block("YQ==")}`],
    ["one that ends amid a line", `${block("YQ==")}x`],
    ["two on one line", `${block("YQ==")}${block("YQ==")}`],
    ["another label", block("YQ==").replaceAll("CERTIFICATE", "X509 CRL")],
  ])("are not found in %s", (_, text) => {
    expect(Pem.certificates(text)).toEqual([]);
    expect(Pem.isCertificates(text)).toBe(false);
  });
});
