import { sha1 } from "@noble/hashes/legacy.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { CaError } from "../../foundation/errors.ts";
import type { SubjectKeyFault } from "../../foundation/refusal.ts";
import { Bytes, Hex } from "../encoding/bytes.ts";
import { DerReader, Tag } from "../encoding/der-reader.ts";
import type { SubjectKeyAlgorithm } from "../signature-algorithm.ts";

/** A public key that the key policy accepts. */
export interface SubjectPublicKey {
  readonly algorithm: SubjectKeyAlgorithm;
  /** The whole SubjectPublicKeyInfo (RFC 5280 §4.1.2.7), DER, byte for byte. */
  readonly spki: Bytes;
  /** The content of its BIT STRING, from which the key identifier is computed. */
  readonly keyOctets: Bytes;
}

type KeyForm = (keyOctets: Bytes) => SubjectKeyFault | undefined;

/**
 * The AlgorithmIdentifiers of accepted keys: named curves (RFC 5480 §2.1.1), RSA (RFC 3279 §2.3.1),
 * Ed25519 (RFC 8410 §3), ML-DSA (RFC 9881 §4).
 */
const acceptedKeys: readonly (readonly [Bytes, SubjectKeyAlgorithm, KeyForm])[] = [
  [
    Hex.parseLiteral("301306072a8648ce3d020106082a8648ce3d030107"),
    "EC-P256",
    uncompressedPoint(32),
  ],
  [Hex.parseLiteral("301006072a8648ce3d020106052b81040022"), "EC-P384", uncompressedPoint(48)],
  [Hex.parseLiteral("301006072a8648ce3d020106052b81040023"), "EC-P521", uncompressedPoint(66)],
  [Hex.parseLiteral("300d06092a864886f70d0101010500"), "RSA", rsaPublicKey],
  [Hex.parseLiteral("300506032b6570"), "Ed25519", (o) => (isEd25519Point(o) ? undefined : "point")],
  [Hex.parseLiteral("300b0609608648016503040311"), "ML-DSA-44", ofLength(1312)],
  [Hex.parseLiteral("300b0609608648016503040312"), "ML-DSA-65", ofLength(1952)],
  [Hex.parseLiteral("300b0609608648016503040313"), "ML-DSA-87", ofLength(2592)],
];

/** The arc of NIST's signature algorithms, in which every post-quantum key has its name. */
const nistSignatures = Hex.parseLiteral("6086480165030403");

const ecPublicKeyOid = "06072a8648ce3d0201";

/** Parses public keys by the key policy (RFC 5280 §4.1.2.7). */
export const SubjectPublicKey = {
  /**
   * Reads a SubjectPublicKeyInfo and applies the key policy: P-256, P-384, P-521, RSA of 2048 to 4096
   * bits, Ed25519, ML-DSA. It does not check that a point lies on its curve; importing the key does.
   *
   * @param spki The whole element.
   * @throws DerError for anything but a SubjectPublicKeyInfo.
   * @throws CaError `subject-key-unacceptable` for a key that the policy does not allow.
   */
  parse(spki: Bytes): SubjectPublicKey {
    const fields = new DerReader(spki).enterLast(Tag.sequence);
    const identifier = fields.fork();
    fields.skip(Tag.sequence);
    const keyOctets = fields.bitStringOctets();
    fields.finish();
    const accepted = acceptedKeys.find(([known]) => identifier.isAt(known));
    if (!accepted) throw refuseAlgorithm(identifier.element(Tag.sequence));
    const [, algorithm, faultOf] = accepted;
    const fault = faultOf(keyOctets);
    if (fault) throw SubjectPublicKey.refuse(fault);
    return { algorithm, spki, keyOctets };
  },

  /** Creates, but does not throw, the refusal of a public key, with the rule that the key breaks. */
  refuse(fault: SubjectKeyFault): CaError {
    return new CaError(
      { reason: "subject-key-unacceptable", fault },
      `the CSR's public key breaks the key policy: ${fault}`,
    );
  },

  /** Whether a SubjectPublicKeyInfo has a post-quantum key, of whatever kind: ML-DSA or SLH-DSA. @throws DerError for any other octets. */
  isPostQuantum(spki: Bytes): boolean {
    const name = new DerReader(spki).enter(Tag.sequence).enter(Tag.sequence);
    return name.enter(Tag.objectIdentifier).isAt(nistSignatures);
  },

  /** The modulus of an RSA key, big-endian and without leading zeros. */
  rsaModulus({ keyOctets }: SubjectPublicKey): Bytes {
    return new DerReader(keyOctets).enter(Tag.sequence).unsignedInteger();
  },

  /**
   * The key identifier of a public key: the leftmost 160 bits of the SHA-256 of its octets (RFC 7093 §2
   * method 1). Go's `x509.CreateCertificate` computes the same since 1.25.
   *
   * WebCrypto is not used: hashing two blocks here takes less time than its promise.
   */
  keyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
    return sha256(keyOctets).slice(0, 20);
  },

  /**
   * The key identifier of an issuer whose certificate has none: the SHA-1 of its key's octets (RFC 5280
   * §4.2.1.2 method 1). Every leaf must have an authority key identifier (§4.2.1.1).
   */
  fallbackKeyIdentifier({ keyOctets }: SubjectPublicKey): Bytes {
    return sha1(keyOctets);
  },
};

function refuseAlgorithm(identifier: Bytes): CaError {
  return SubjectPublicKey.refuse(
    Hex.format(identifier).includes(ecPublicKeyOid) ? "curve" : "algorithm",
  );
}

function ofLength(length: number): KeyForm {
  return (octets) => (octets.length === length ? undefined : "length");
}

function uncompressedPoint(coordinateOctets: number): KeyForm {
  // RFC 5480 §2.2 obliges every implementation to support the uncompressed form, and no other.
  return (octets) =>
    octets[0] === 0x04 && octets.length === 1 + 2 * coordinateOctets ? undefined : "point";
}

function rsaPublicKey(octets: Bytes): SubjectKeyFault | undefined {
  const integers = new DerReader(octets).enterLast(Tag.sequence);
  const modulus = integers.unsignedInteger();
  const exponent = integers.unsignedInteger();
  integers.finish();
  return rsaKeyFault(modulus, exponent);
}

/**
 * The fault of an RSA public key, if it has one: it must have 2048 to 4096 bits and the exponent 65537.
 *
 * @param modulus Big-endian and without leading zeros, like the exponent.
 */
export function rsaKeyFault(modulus: Bytes, exponent: Bytes): SubjectKeyFault | undefined {
  if (!isOdd(modulus) || bitLength(modulus) < 2048 || bitLength(modulus) > 4096) return "modulus";
  return Bytes.equal(exponent, fermat4) ? undefined : "exponent";
}

/** 65537 (F4), which every client uses. It is the only large exponent that workerd imports. */
const fermat4 = Hex.parseLiteral("010001");

/**
 * The y coordinates of the points of small order, in little-endian order (RFC 8032 §5.1.2). Anybody can
 * make signatures for such a key, so a signature proves nothing.
 */
const smallOrder: readonly Bytes[] = [
  Hex.parseLiteral("00".repeat(32)),
  Hex.parseLiteral(`01${"00".repeat(31)}`),
  Hex.parseLiteral(`ec${"ff".repeat(30)}7f`),
  Hex.parseLiteral("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
  Hex.parseLiteral("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
];

/** 2^255 - 19, little-endian. A coordinate of this or more is a second encoding of a smaller one. */
const fieldPrime = Hex.parseLiteral(`ed${"ff".repeat(30)}7f`);

function isEd25519Point(octets: Bytes): boolean {
  if (octets.length !== 32) return false;
  const y = octets.map((octet, i) => (i === 31 ? octet & 0x7f : octet));
  const isCanonical = y.some((octet, i) => i > 0 && octet !== fieldPrime[i]) || (y[0] ?? 0) < 0xed;
  return isCanonical && !smallOrder.some((point) => Bytes.equal(point, y));
}

const isOdd = (integer: Bytes): boolean => ((integer.at(-1) ?? 0) & 1) === 1;

/** The number of significant bits of a big-endian integer without leading zeros. */
export const bitLength = (integer: Bytes): number =>
  integer.length * 8 - Math.clz32(integer[0] ?? 0) + 24;
