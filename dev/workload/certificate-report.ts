import { type KeyObject, X509Certificate } from "node:crypto";
import { OperatorError } from "../../src/foundation/errors.ts";
import { SerialNumber } from "../../src/pki/encoding/serial-number.ts";

/** One line of a report. */
type ReportLine = readonly [topic: string, text: string];

/**
 * Describes an issued certificate. Each claim of the last line is verified with node:crypto, which had
 * no part in making the certificate.
 *
 * @throws OperatorError for a chain that a workload cannot use.
 */
export function certificateReport(chain: readonly string[], key: KeyObject): readonly ReportLine[] {
  const [leaf, ...intermediates] = chain
    .slice(0, -1)
    .flatMap(splitPem)
    .map((pem) => new X509Certificate(pem));
  const roots = splitPem(chain.at(-1) ?? "").map((pem) => new X509Certificate(pem));
  if (leaf === undefined)
    throw new OperatorError(`The chain has ${chain.length} elements, not two.`);
  if (!leaf.checkPrivateKey(key)) throw new OperatorError("The certificate is for another key.");
  if (!isIssued([leaf, ...intermediates], roots)) {
    throw new OperatorError("The chain does not lead from the certificate to its trust bundle.");
  }
  return [
    ["SPIFFE ID", `${leaf.subjectAltName?.replace(/^URI:/, "")}`],
    ["serial", SerialNumber.shown(leaf.serialNumber)],
    ["issuer", leaf.issuer],
    ["valid", validity(leaf)],
    ["key", describeKey(leaf.publicKey)],
    ["chain", ["leaf", ...intermediates.map(() => "intermediate"), "trust bundle"].join(", ")],
    ["trust bundle", `${roots.length} ${roots.length === 1 ? "root" : "roots"}`],
    ...roots.flatMap((root): ReportLine[] => [
      ["", `${root.subject}, ${validity(root)}`],
      ["", `SHA-256 ${root.fingerprint256}`],
    ]),
    [
      "verified",
      "it is signed by that trust bundle, and its key is the workload's own (node:crypto)",
    ],
  ];
}

/** Each certificate of a PEM text. */
function splitPem(text: string): string[] {
  return text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
}

/** Whether each certificate is issued by the next one, and the last by a root. */
function isIssued(path: readonly X509Certificate[], roots: readonly X509Certificate[]): boolean {
  return path.every((certificate, index) => {
    const next = path[index + 1];
    const issuers = next ? [next] : roots;
    return issuers.some((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey));
  });
}

function describeKey({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string {
  const { namedCurve, modulusLength } = asymmetricKeyDetails ?? {};
  return [asymmetricKeyType?.toUpperCase(), namedCurve ?? modulusLength].join(" ");
}

function validity({ validFromDate, validToDate }: X509Certificate): string {
  const minutes = Math.round((validToDate.getTime() - validFromDate.getTime()) / 60_000);
  return `${instant(validFromDate)} until ${instant(validToDate)} (${duration(minutes)})`;
}

function instant(date: Date): string {
  return date
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, "Z");
}

function duration(minutes: number): string {
  const hours = Math.floor(minutes / 60);
  const isLong = hours > 72;
  const parts = [
    [isLong ? Math.floor(hours / 24) : 0, "days"],
    [isLong ? hours % 24 : hours, "h"],
    [minutes % 60, "min"],
  ] as const;
  return parts
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}
