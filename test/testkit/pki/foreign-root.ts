import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";

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

const p256 = { name: "ECDSA", namedCurve: "P-256" };

export const createKeys = (algorithm: EcKeyGenParams | RsaHashedKeyGenParams = p256) =>
  crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]) as Promise<CryptoKeyPair>;

/** Makes a CA certificate with @peculiar/x509, DER. */
export async function createRoot({
  notAfter,
  notBefore = new Date("2020-01-01T00:00:00Z"),
  name = "O=elsewhere",
  paddingOctets = 0,
  ...options
}: RootOptions): Promise<Uint8Array<ArrayBuffer>> {
  const keys = options.keys ?? (await createKeys());
  const issuer = options.issuer ?? { name, keys };
  const padding = new x509.Extension("1.3.6.1.4.1.99999.1", false, new Uint8Array(paddingOctets));
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: "01",
    subject: name,
    issuer: issuer.name,
    notBefore,
    notAfter,
    signingAlgorithm: { ...issuer.keys.privateKey.algorithm, hash: "SHA-256" },
    publicKey: keys.publicKey,
    signingKey: issuer.keys.privateKey,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      ...(paddingOctets > 0 ? [padding] : []),
    ],
  });
  return new Uint8Array(certificate.rawData);
}
