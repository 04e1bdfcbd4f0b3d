import fc from "fast-check";
import { expect, test } from "vitest";
import { applyEdit, type DerEdit } from "../../testkit/der/mutation.ts";
import { buildCsr, csrPem, generateSigner } from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const signer = generateSigner("EC-P256");

/** A CSR whose base64 ends in padding, so that the padding can be wrong. */
function paddedCsr(): Buffer {
  const csr = buildCsr(signer);
  return csr.length % 3 === 1 ? csr : paddedCsr();
}

/** The texts that the braces in csr-pem.json stand for. */
function pieces(csr: Buffer): Record<string, string> {
  const pem = csrPem(csr).trimEnd().split("\n");
  const [begin = "", end = "", body = pem.slice(1, -1)] = [pem[0], pem.at(-1)];
  const text = body.join("\n");
  const lastSymbol = text.at(-3) ?? "";
  return {
    begin,
    end,
    body: text,
    newBegin: begin.replace("CERT", "NEW CERT"),
    newEnd: end.replace("CERT", "NEW CERT"),
    crlfBody: body.join("\r\n"),
    crBody: body.join("\r"),
    spacedBody: body.join(" \n"),
    line: csr.toString("base64"),
    urlBody: `${csr.toString("base64url")}-_`,
    unpaddedBody: text.replace(/=+$/, ""),
    strayBitsBody: `${text.slice(0, -3)}${String.fromCharCode(lastSymbol.charCodeAt(0) + 1)}==`,
    hex: csr.toString("hex"),
    latin1: csr.toString("latin1"),
    twentyThousand: Buffer.alloc(15_000).toString("base64"),
    twentyThousandSpaces: " ".repeat(20_000),
  };
}

const pemVectors = readVectors<{ name: string; text: string; accepted?: boolean }>("csr-pem");

const filled = (text: string): string => {
  const piece = pieces(paddedCsr());
  return text.replace(/\{(\w+)\}/g, (_, name: string) => piece[name] ?? "missing");
};

test.each(pemVectors.filter(({ accepted }) => accepted))("accepts $name", async ({ text }) => {
  expect(await parseCsr(filled(text))).toMatchObject({
    algorithm: "EC-P256",
  });
});

test.each(pemVectors.filter(({ accepted }) => !accepted))("refuses $name", async ({ text }) => {
  const refusal = await refusalOf(() => parseCsr(filled(text)));
  expect(refusal).toEqual({ reason: "csr-malformed" });
});

interface DerVector {
  readonly name: string;
  readonly part: string;
  readonly edit: DerEdit;
  readonly refusal: string | null;
}

/** Edits the CSR; before signing it where the signature covers the edit. */
const edited = ({ part, edit }: DerVector): string =>
  csrPem(buildCsr(signer, { [part]: (element: Buffer<ArrayBuffer>) => applyEdit(element, edit) }));

const derVectors = readVectors<DerVector>("csr-der");

test.each(derVectors.filter(({ refusal }) => refusal === null))("accepts $name", async (row) => {
  expect(await parseCsr(edited(row))).toMatchObject({ algorithm: "EC-P256" });
});

test.each(derVectors.filter(({ refusal }) => refusal !== null))("refuses $name", async (row) => {
  const { reason } = await refusalOf(() => parseCsr(edited(row)));
  expect(reason).toBe(row.refusal);
});

test("refuses any octets in a PEM block, and always with a CaError", async () => {
  const octets = fc.uint8Array({ maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(octets, async (der) => {
      const refusal = await refusalOf(() => parseCsr(csrPem(der)));
      expect(refusal).toEqual({ reason: "csr-malformed" });
    }),
    { numRuns: 1000 },
  );
});

test("refuses any text", async () => {
  const text = fc.string({ maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(text, async (pem) => {
      const refusal = await refusalOf(() => parseCsr(pem));
      expect(refusal).toEqual({ reason: "csr-malformed" });
    }),
  );
});
