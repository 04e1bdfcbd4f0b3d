import "reflect-metadata/lite";
import {
  AuthorityKeyIdentifierExtension,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonGeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

const p256 = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const clientAuth = "1.3.6.1.5.5.7.3.2";

/** The parts of a leaf that a test changes. */
export interface ClientLeaf {
  readonly names?: JsonGeneralNames;
  readonly usages?: KeyUsageFlags | undefined;
  readonly purposes?: readonly string[];
  readonly extensions?: readonly Extension[];
  /** Whether it names the key of its issuer, as Rampart's leaves do. */
  readonly hasKeyIdentifier?: boolean;
  /** A fresh one, of which nobody has the private key, if absent. */
  readonly publicKey?: CryptoKey;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

/** The one who signs leaves here: the CA of a certificate, or anybody who says so. */
export interface LeafSigner {
  /** DER of the certificate that the leaves name as their issuer's. */
  readonly certificate: Uint8Array<ArrayBuffer>;
  readonly privateKey: CryptoKey;
  readonly hash?: string;
}

async function freshKey(): Promise<CryptoKey> {
  const keys = (await crypto.subtle.generateKey(p256, false, ["sign"])) as CryptoKeyPair;
  return keys.publicKey;
}

/** A leaf for clients that another implementation has signed, DER. */
export async function signClientLeaf(
  { certificate, privateKey, hash = "SHA-256" }: LeafSigner,
  spiffeId: string,
  leaf: ClientLeaf = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const authority = new X509Certificate(certificate);
  const publicKey = leaf.publicKey ?? (await freshKey());
  const identifier = authority.getExtension(SubjectKeyIdentifierExtension);
  const keyIdentifier = identifier?.keyId ?? "";
  const { names = [{ type: "url", value: spiffeId }], purposes = [clientAuth] } = leaf;
  const usages = "usages" in leaf ? leaf.usages : KeyUsageFlags.digitalSignature;
  const { rawData } = await X509CertificateGenerator.create({
    issuer: authority.subjectName,
    subject: "",
    publicKey,
    signingKey: privateKey,
    signingAlgorithm: { ...privateKey.algorithm, hash },
    notBefore: leaf.notBefore ?? authority.notBefore,
    notAfter: leaf.notAfter ?? authority.notAfter,
    extensions: [
      ...(leaf.hasKeyIdentifier === false
        ? []
        : [new AuthorityKeyIdentifierExtension(keyIdentifier)]),
      ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names, true)] : []),
      ...(usages === undefined ? [] : [new KeyUsagesExtension(usages, true)]),
      ...(purposes.length > 0 ? [new ExtendedKeyUsageExtension([...purposes])] : []),
      ...(leaf.extensions ?? []),
    ],
  });
  return new Uint8Array(rawData);
}
