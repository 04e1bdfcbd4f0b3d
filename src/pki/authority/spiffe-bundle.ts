import type { JWK } from "jose";
import { exportJWK } from "jose/key/export";
import { Base64 } from "../encoding/base64.ts";
import type { Bytes } from "../encoding/bytes.ts";
import { SignatureAlgorithm } from "../signature-algorithm.ts";
import { Certificate } from "../x509/certificate.ts";
import { SubjectPublicKey } from "../x509/subject-public-key.ts";

/** One root as a JWK of a SPIFFE bundle: no `kid`, exactly one certificate (X509-SVID §6.2). */
interface SpiffeBundleKey extends PublicJwk {
  readonly use: "x509-svid";
  readonly x5c: readonly [string];
}

/** A SPIFFE bundle: a JWK Set with two more members (SPIFFE Trust Domain and Bundle §4). */
interface SpiffeBundleDocument {
  readonly spiffe_sequence: number;
  /** Seconds. */
  readonly spiffe_refresh_hint: number;
  readonly keys: readonly SpiffeBundleKey[];
}

/** Makes a SPIFFE bundle of the roots of a trust bundle, in their order. @throws as {@link publicJwk} for a root's key. */
export async function toSpiffeBundle(
  roots: readonly Bytes[],
  sequence: number,
  refreshHintSeconds: number,
): Promise<SpiffeBundleDocument> {
  return {
    spiffe_sequence: sequence,
    spiffe_refresh_hint: refreshHintSeconds,
    keys: await Promise.all(roots.map(toBundleKey)),
  };
}

async function toBundleKey(root: Bytes): Promise<SpiffeBundleKey> {
  const { spki } = Certificate.parse(root).toBeSigned;
  return { use: "x509-svid", ...(await publicJwk(spki)), x5c: [Base64.format(root)] };
}

/** The members of a public key in a JWK (RFC 7518 §6). */
type PublicJwk = Pick<JWK, "kty" | "alg" | "crv" | "x" | "y" | "n" | "e" | "pub">;

/**
 * Exports a public key as a JWK of its public members alone (RFC 7517 §4).
 *
 * @param spki SubjectPublicKeyInfo, DER.
 * @throws DerError, CaError `subject-key-unacceptable`
 */
export async function publicJwk(spki: Bytes): Promise<PublicJwk> {
  const { importParameters } = SignatureAlgorithm.of(SubjectPublicKey.parse(spki));
  return exportJWK(await crypto.subtle.importKey("spki", spki, importParameters, true, ["verify"]));
}
