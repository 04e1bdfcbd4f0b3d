import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { createCa, isCa } from "./plugged-in.ts";

/** The properties of a CA certificate that another implementation makes. */
export interface RootOptions {
  readonly notAfter: Date;
  readonly notBefore?: Date;
  readonly name?: string;
  /** Its key pair; a fresh one of P-256 if absent. */
  readonly keys?: CryptoKeyPair;
  /** Its issuer; the certificate itself if absent. */
  readonly issuer?: { readonly name: string; readonly keys: CryptoKeyPair };
  /** The octets of an unknown extension, which make the certificate long. */
  readonly paddingOctets?: number;
}

/** Makes a CA certificate without key usage or key identifiers, DER. */
export async function createRoot({
  notBefore = new Date("2020-01-01T00:00:00Z"),
  name = "O=elsewhere",
  paddingOctets = 0,
  ...options
}: RootOptions): Promise<Uint8Array<ArrayBuffer>> {
  const padding = new x509.Extension("1.3.6.1.4.1.99999.1", false, new Uint8Array(paddingOctets));
  const { pem } = await createCa(name, {
    ...options,
    notBefore,
    serialNumber: "01",
    extensions: [isCa(), ...(paddingOctets > 0 ? [padding] : [])],
    lacksKeyIdentifiers: true,
  });
  return new Uint8Array(x509.PemConverter.decodeFirst(pem));
}
