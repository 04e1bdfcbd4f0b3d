import { der, hex, type Octets } from "../../testkit/der/mutation.ts";
import { requestedUri } from "../../testkit/pki/csr.ts";
import { type FixedKey, type FixedKeyKind, fixedKey } from "./fixed-keys.ts";
import { identifierOf, signForX509 } from "./fixed-signature.ts";

const kinds: readonly FixedKeyKind[] = ["P-256", "P-384", "P-521", "RSA", "Ed25519"];

/** One key of every kind that a workload may have. */
export const workloadKeys: readonly FixedKey[] = kinds.map((kind) => fixedKey(kind, "workload"));

const subject = hex("300b31093007060355040a1300");

/** The CertificationRequestInfo of a key (RFC 2986 §4.1), as Istio's clients write it. */
export const requestInfo = (spki: Octets): Octets =>
  der(0x30, hex("020100"), subject, spki, requestedUri("spiffe://cluster.local/ns/foo/sa/bar"));

/** A CSR over any info, however broken, signed by the key. */
export const signedRequest = (
  key: FixedKey,
  info: Octets,
  identifier = identifierOf(key),
): Octets => der(0x30, info, identifier, der(0x03, hex("00"), signForX509(key, info)));
