import { X509Certificate } from "node:crypto";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { parseCertificates } from "../../../src/program/files/pem-file.ts";
import { rootCertificates } from "../corpus/certificates.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateText } from "../mutation/text.ts";
import { requireThat, type Target } from "./target.ts";

const pem = rootCertificates.map((root) => Pem.format("CERTIFICATE", root));
const glued = pem.map((each) => each.trim()).join("");
const intact = `# roots of the mesh\n${pem.join("\n")}\n# the end\n`;

/** A trust bundle in PEM, read block by block as Go's `encoding/pem` reads it. */
export const rootFile: Target = {
  generate: (random) =>
    Buffer.from(mutateText(random, oneOf(random, [intact, pem.join(""), glued]))),
  judge: async (octets) => {
    const text = octets.toString();
    const blocks = Pem.certificates(text);
    requireThat(
      JSON.stringify(blocks) === JSON.stringify(blocksByLine(text)),
      "finds other blocks than a reader of lines",
    );
    const read = parseCertificates(text).map(({ raw }) => raw.toString("base64"));
    requireThat(
      read.every((base64) => blocks.includes(base64) && isCertificate(base64)),
      "read a certificate that no block holds",
    );
    const rest = Pem.isCertificates(text) ? "only certificates" : "something else";
    return `${rest}, ${read.length === blocks.length ? "all" : "not all"} read`;
  },
};

/** None where a line has more of a boundary than belongs there. */
function blocksByLine(text: string): string[] {
  const blocks: string[] = [];
  let open: { readonly label: string; symbols: string } | undefined;
  for (const line of text.split("\n")) {
    const [, word, label = ""] =
      /^-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----[ \t]*\r?$/.exec(line) ?? [];
    if (line.includes("-----BEGIN ")) {
      if (open || word !== "BEGIN") return [];
      open = { label, symbols: "" };
    } else if (open && line.includes("-----END ")) {
      if (word !== "END" || label !== open.label) return [];
      if (label === "CERTIFICATE") blocks.push(open.symbols);
      open = undefined;
    } else if (open) open.symbols += line.replace(/[ \t\r]/g, "");
  }
  return open ? [] : blocks;
}

function isCertificate(base64: string): boolean {
  return new X509Certificate(Buffer.from(base64, "base64")).raw.toString("base64") === base64;
}
