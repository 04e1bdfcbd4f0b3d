import { generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import type { SubjectKey } from "../../program/certificate-request.ts";

/** The kinds of key that a workload may have. */
export type SubjectKeyKind =
  | { readonly kind: "EC"; readonly curve: "P-256" | "P-384" }
  | { readonly kind: "RSA"; readonly bits: number };

const generate = promisify(generateKeyPair);

/** Generates a key on another thread, because an RSA key takes long. */
export async function generateSubjectKey(key: SubjectKeyKind): Promise<SubjectKey> {
  return key.kind === "EC"
    ? await generate("ec", { namedCurve: key.curve })
    : await generate("rsa", { modulusLength: key.bits, publicExponent: 0x10001 });
}

/** PEM as pilot-agent writes it: PKCS#8, or the older SEC 1 and PKCS#1 forms. */
export function privateKeyPem(key: KeyObject, isPkcs8: boolean): string {
  if (isPkcs8) return key.export({ type: "pkcs8", format: "pem" }).toString();
  const type = key.asymmetricKeyType === "ec" ? "sec1" : "pkcs1";
  return key.export({ type, format: "pem" }).toString();
}
