import { X509Certificate } from "node:crypto";
import { certificateBlocks, isCertificateBlocks, toPem } from "../../../src/pki/encoding/pem.ts";
import { parseCertificates } from "../../../src/program/files/pem-file.ts";
import { rootCertificates } from "../corpus/certificates.ts";
import { mutateText } from "../mutation/text.ts";
import { requireThat, type Target } from "./target.ts";

const pem = rootCertificates.map((root) => toPem("CERTIFICATE", root));
const intact = `# roots of the mesh\n${pem.join("\n")}\n# the end\n`;

/** A trust bundle in PEM, read block by block as Go's `encoding/pem` reads it. */
export const rootFile: Target = {
  generate: (random) => Buffer.from(mutateText(random, random.chance(0.5) ? intact : pem.join(""))),
  judge: async (octets) => {
    const text = octets.toString();
    const blocks = certificateBlocks(text);
    requireThat(
      JSON.stringify(blocks) === JSON.stringify(blocksByLine(text)),
      "finds other blocks than a reader of lines",
    );
    const read = parseCertificates(text).map(({ raw }) => raw.toString("base64"));
    requireThat(
      read.every((base64) => blocks.includes(base64) && isCertificate(base64)),
      "read a certificate that no block holds",
    );
    const rest = isCertificateBlocks(text) ? "only blocks" : "other text";
    return `${rest}, ${read.length === blocks.length ? "all" : "not all"} read`;
  },
};

function blocksByLine(text: string): string[] {
  const blocks: string[] = [];
  let symbols: string[] | undefined;
  for (const line of text.split("\n").map((each) => each.replace(/\r$/, ""))) {
    const boundary = line.replace(/[ \t]+$/, "");
    if (boundary === "-----BEGIN CERTIFICATE-----") symbols = [];
    else if (boundary === "-----END CERTIFICATE-----" && symbols) {
      blocks.push(symbols.join("").replace(/\s/g, ""));
      symbols = undefined;
    } else if (/^[A-Za-z0-9+/= \t\r]*$/.test(line)) symbols?.push(line);
    else symbols = undefined;
  }
  return blocks;
}

function isCertificate(base64: string): boolean {
  return new X509Certificate(Buffer.from(base64, "base64")).raw.toString("base64") === base64;
}
