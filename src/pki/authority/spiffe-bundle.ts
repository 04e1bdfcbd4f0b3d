import { toBase64 } from "../encoding/base64.ts";
import type { Bytes } from "../encoding/bytes.ts";
import { parseCertificate } from "../x509/certificate.ts";
import { signatureAlgorithmOf } from "../x509/signature-algorithm.ts";
import { parseSubjectPublicKey } from "../x509/subject-public-key.ts";

/** One root as a JWK of a SPIFFE bundle: no `kid`, exactly one certificate (X509-SVID §6.2). */
export interface SpiffeBundleKey extends Pick<JsonWebKey, "kty" | "crv" | "x" | "y" | "n" | "e"> {
  readonly use: "x509-svid";
  readonly x5c: readonly [string];
}

/** A SPIFFE bundle: a JWK Set with two more members (SPIFFE Trust Domain and Bundle §4). */
export interface SpiffeBundle {
  readonly spiffe_sequence: number;
  /** Seconds. */
  readonly spiffe_refresh_hint: number;
  readonly keys: readonly SpiffeBundleKey[];
}

/** The roots of a trust bundle as a SPIFFE bundle, in their order. */
export async function toSpiffeBundle(
  roots: readonly Bytes[],
  sequence: number,
  refreshHintSeconds: number,
): Promise<SpiffeBundle> {
  return {
    spiffe_sequence: sequence,
    spiffe_refresh_hint: refreshHintSeconds,
    keys: await Promise.all(roots.map(toBundleKey)),
  };
}

async function toBundleKey(root: Bytes): Promise<SpiffeBundleKey> {
  const { spki } = parseCertificate(root).toBeSigned;
  const { importParameters } = signatureAlgorithmOf(parseSubjectPublicKey(spki));
  const key = await crypto.subtle.importKey("spki", spki, importParameters, true, ["verify"]);
  const { kty, crv, x, y, n, e } = await crypto.subtle.exportKey("jwk", key);
  const parameters = Object.entries({ kty, crv, x, y, n, e }).filter(([, v]) => v !== undefined);
  return { use: "x509-svid", ...Object.fromEntries(parameters), x5c: [toBase64(root)] };
}
