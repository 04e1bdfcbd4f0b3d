import "reflect-metadata/lite";
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  X509Certificate,
} from "@peculiar/x509";
import { Base64 } from "../encoding/base64.ts";
import { Bytes } from "../encoding/bytes.ts";
import { Pem } from "../encoding/pem.ts";

/** The certificates of an X.509-SVID. */
export const SvidChain = {
  /**
   * The certificates of a PEM text, read by a library that runs on every platform and accepts more than the strict parser
   * of this CA's own certificates.
   *
   * @returns `undefined` where a block holds no certificate; an empty list for a text that {@link Pem.blocks} refuses.
   */
  parse(pem: string): readonly X509Certificate[] | undefined {
    try {
      return Pem.certificates(pem).map((block) => new X509Certificate(Base64.parse(block) ?? ""));
    } catch {
      // The library's errors do not say more.
      return undefined;
    }
  },

  /** Whether a certificate may issue others, as it says itself (RFC 5280 §4.2.1.9). */
  isCaCertificate: (certificate: X509Certificate): boolean =>
    certificate.getExtension(BasicConstraintsExtension)?.ca ?? false,

  /**
   * The SPIFFE ID of a leaf: its one URI, which may have DNS names beside it (SPIFFE X509-SVID §2).
   *
   * @returns `undefined` for any other certificate. The form of the URI is not checked.
   */
  spiffeIdOf(certificate: X509Certificate): string | undefined {
    const extensions = certificate.getExtensions(SubjectAlternativeNameExtension);
    const names = extensions
      .flatMap((each) => each.names.items)
      .filter(({ type }) => type !== "dns");
    const [name] = names;
    const isSvid =
      names.length === 1 && name?.type === "url" && !SvidChain.isCaCertificate(certificate);
    return isSvid ? name.value : undefined;
  },

  /**
   * Whether each certificate is issued by the next one, and the last by one of the roots. Issuers must not have
   * expired, and must be CAs unless they are roots. The leaf may have expired. `false` for an empty chain.
   */
  async leadsToRoot(
    chain: readonly X509Certificate[],
    roots: readonly X509Certificate[],
    now: Date,
  ): Promise<boolean> {
    const links = chain.map(async (child, i) => {
      const next = chain[i + 1];
      const issuers = next ? [next].filter(SvidChain.isCaCertificate) : roots;
      const issued = issuers.map(
        (issuer) => now < issuer.notAfter && SvidChain.isIssuedBy(child, issuer),
      );
      return (await Promise.all(issued)).includes(true);
    });
    return chain.length > 0 && (await Promise.all(links)).every(Boolean);
  },

  /** Whether name and signature match the issuer. A signature over SHA-1 never matches. */
  async isIssuedBy(child: X509Certificate, issuer: X509Certificate): Promise<boolean> {
    const { hash }: { readonly hash?: { readonly name: string } } = child.signatureAlgorithm;
    const [issuerName, name] = [child.issuerName, issuer.subjectName].map(
      (each) => new Uint8Array(each.toArrayBuffer()),
    );
    if (!issuerName || !name || !Bytes.equal(issuerName, name) || !hashes.includes(hash?.name)) {
      return false;
    }
    try {
      return await child.verify({ publicKey: issuer, signatureOnly: true });
    } catch {
      // The library throws for a signature of another curve than the key's: two issuers may have one name.
      return false;
    }
  },
};

/** The hashes that a signature may be over. Ed25519 and ML-DSA name none. */
const hashes: readonly (string | undefined)[] = ["SHA-256", "SHA-384", "SHA-512", undefined];
