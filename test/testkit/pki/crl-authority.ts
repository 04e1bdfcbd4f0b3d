import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { Crl } from "../../../src/pki/x509/crl/crl.ts";
import { createCa, generateKeys, isCa, maySign, type TestCa } from "./plugged-in.ts";

/** A CA that signs CRLs with a library of others. */
export interface CrlAuthority {
  readonly ca: TestCa;
  readonly certificate: X509Certificate;
  /** PEM of a CRL. */
  readonly crl: (departures?: CrlDepartures) => Promise<string>;
}

/** Departures from CRL number 1, which is current on 2026-06-01 and revokes nothing. */
export interface CrlDepartures {
  readonly number?: number | undefined;
  readonly thisUpdate?: Date;
  readonly nextUpdate?: Date | undefined;
  /** Serial numbers in hexadecimal. */
  readonly revoked?: readonly string[];
  readonly extensions?: readonly x509.Extension[];
  /** Signs in place of the authority. */
  readonly signer?: CrlAuthority;
  readonly hasKeyIdentifier?: boolean;
}

/** The time at which everything here is current. */
export const crlTime: Date = new Date("2026-06-01T12:00:00Z");

export async function createCrlAuthority(
  name = "O=cluster.local",
  { issuer, mayList = true }: { readonly issuer?: CrlAuthority; readonly mayList?: boolean } = {},
): Promise<CrlAuthority> {
  const keys = await generateKeys();
  const ca = await createCa(name, {
    keys,
    ...(issuer && { issuer: issuer.ca }),
    extensions: [
      isCa(),
      mayList ? maySign : new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return {
    ca,
    certificate: new X509Certificate(ca.pem),
    crl: (departures) => signedCrl(ca, departures),
  };
}

async function signedCrl(ca: TestCa, departures: CrlDepartures = {}): Promise<string> {
  const {
    thisUpdate = new Date("2026-06-01T11:00:00Z"),
    revoked = [],
    extensions = [],
  } = departures;
  const number = "number" in departures ? departures.number : 1;
  const nextUpdate =
    "nextUpdate" in departures ? departures.nextUpdate : new Date("2026-06-01T13:00:00Z");
  const crl = await x509.X509CrlGenerator.create({
    issuer: ca.name,
    thisUpdate,
    ...(nextUpdate && { nextUpdate }),
    entries: revoked.map((serialNumber) => ({ serialNumber, revocationDate: thisUpdate })),
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    signingKey: (departures.signer?.ca ?? ca).keys.privateKey,
    extensions: [
      ...(departures.hasKeyIdentifier === false
        ? []
        : [await x509.AuthorityKeyIdentifierExtension.create(ca.keys.publicKey)]),
      ...(number === undefined ? [] : [new x509.Extension("2.5.29.20", false, integer(number))]),
      ...extensions,
    ],
  });
  return `${x509.PemConverter.encode(crl.rawData, "X509 CRL")}\n`;
}

/** DER of a number below 128. */
const integer = (number: number): Uint8Array<ArrayBuffer> => Uint8Array.of(0x02, 0x01, number);

/** The CRL in a PEM text. */
export function parsedCrl(pem: string): Crl {
  return Crl.parse(new Uint8Array(x509.PemConverter.decodeFirst(pem)));
}
