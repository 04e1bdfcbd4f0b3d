import "reflect-metadata/lite";
import { X509Crl } from "@peculiar/x509";

/** A CRL as another library reads it. */
interface ReadCrl {
  readonly issuer: string;
  readonly thisUpdate: Date;
  readonly nextUpdate: Date | undefined;
  readonly number: bigint;
  /** Serial numbers in hexadecimal, with the reason's code. */
  readonly entries: readonly (readonly [string, number | undefined])[];
}

const crlNumber = "2.5.29.20";

export function readCrl(crl: string | Uint8Array<ArrayBuffer>): ReadCrl {
  const read = new X509Crl(typeof crl === "string" ? crl : new Uint8Array(crl));
  const value = read.extensions.find(({ type }) => type === crlNumber)?.value;
  if (!value) throw new Error("no CRL number");
  const [, , ...octets] = Buffer.from(value);
  return {
    issuer: read.issuer,
    thisUpdate: read.thisUpdate,
    nextUpdate: read.nextUpdate,
    number: BigInt(`0x${Buffer.from(octets).toString("hex")}`),
    entries: read.entries.map((each) => [each.serialNumber, each.reason]),
  };
}

/** The PEM blocks of a file with several CRLs. */
export const crlBlocks = (text: string): readonly string[] =>
  text.match(/-----BEGIN X509 CRL-----[^-]*-----END X509 CRL-----\n/g) ?? [];
