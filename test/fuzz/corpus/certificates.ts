import { der, derInteger, extension, hex, type Octets } from "../../testkit/der/mutation.ts";
import { type FixedKey, type FixedKeyKind, fixedKey } from "./fixed-keys.ts";
import { identifierOf, signForX509 } from "./fixed-signature.ts";

/** The key of an authority of the corpus. */
export const authorityKey = (kind: FixedKeyKind): FixedKey => fixedKey(kind, "authority");

const name = (text: string): Octets =>
  der(0x30, der(0x31, der(0x30, hex("0603550403"), der(0x0c, Buffer.from(text)))));

const validity = der(
  0x30,
  der(0x17, Buffer.from("260301000000Z")),
  der(0x18, Buffer.from("20560301000000Z")),
);

const keyIdentifier = hex("0414".concat("5a".repeat(20)));

const authorityExtensions = [
  extension("551d0f", true, hex("03020106")),
  extension("551d13", true, hex("30030101ff")),
  extension("551d0e", false, keyIdentifier),
];

const uri = (text: string): Octets => der(0x86, Buffer.from(text));

const richExtensions = [
  extension("551d0f", true, hex("03020106")),
  extension("551d13", true, hex("30060101ff020103")),
  extension("551d0e", false, keyIdentifier),
  extension("551d23", false, der(0x30, der(0x80, Buffer.alloc(20, 0x5a)))),
  extension("551d25", false, hex("301406082b0601050507030106082b06010505070302")),
  extension(
    "551d11",
    false,
    der(0x30, uri("spiffe://cluster.local"), der(0x82, Buffer.from("a.test"))),
  ),
  extension("551d1e", true, der(0x30, der(0xa0, der(0x30, uri("cluster.local"))))),
  extension("551d20", false, hex("300830060604551d2000")),
  extension("551d1f", false, der(0x30, der(0x30, der(0xa0, der(0xa0, uri("http://a.test/crl")))))),
  extension(
    "2b06010505070101",
    false,
    der(0x30, der(0x30, hex("06082b06010505073001"), uri("http://a.test/ocsp"))),
  ),
];

const leafExtensions = [
  extension("551d0f", true, hex("030205a0")),
  extension("551d25", false, hex("301406082b0601050507030106082b06010505070302")),
  extension("551d13", true, hex("3000")),
  extension("551d23", false, der(0x30, der(0x80, Buffer.alloc(20, 0x5a)))),
  extension(
    "551d11",
    true,
    der(0x30, der(0x86, Buffer.from("spiffe://cluster.local/ns/foo/sa/bar"))),
  ),
];

/** A TBSCertificate of version 3, or of version 1 without extensions. */
function toBeSigned(key: FixedKey, subject: string, extensions: readonly Octets[]): Octets {
  const isVersion3 = extensions.length > 0;
  return der(
    0x30,
    hex(isVersion3 ? "a003020102" : ""),
    derInteger(0x5a5a5a5a5a5a5a5an),
    identifierOf(key),
    name("authority"),
    validity,
    name(subject),
    key.spki,
    ...(isVersion3 ? [der(0xa3, der(0x30, ...extensions))] : []),
  );
}

/** A certificate over any to-be-signed bytes, however broken, signed by the key. */
export const signedCertificate = (key: FixedKey, bytes: Octets): Octets =>
  der(0x30, bytes, identifierOf(key), der(0x03, hex("00"), signForX509(key, bytes)));

const selfSigned = (kind: FixedKeyKind, extensions: readonly Octets[]): Octets => {
  const key = authorityKey(kind);
  return signedCertificate(key, toBeSigned(key, "authority", extensions));
};

/** Self-signed roots of four kinds of key. */
export const rootCertificates = (["P-256", "P-384", "RSA", "Ed25519"] as const).map((kind) =>
  selfSigned(kind, authorityExtensions),
);

/** A self-signed root with as many extensions as a public CA's. */
export const richRoot = selfSigned("P-256", richExtensions);

/** A workload's, signed by the first root. */
export const leafCertificate = signedCertificate(
  authorityKey("P-256"),
  toBeSigned(authorityKey("P-256"), "leaf", leafExtensions),
);

/** Every certificate of the corpus: roots, a leaf, and a root of version 1. */
export const certificates: readonly Octets[] = [
  ...rootCertificates,
  richRoot,
  leafCertificate,
  selfSigned("P-256", []),
];
