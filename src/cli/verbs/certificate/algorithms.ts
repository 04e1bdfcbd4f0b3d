import type { PublicKey } from "@peculiar/x509";

/** An algorithm as WebCrypto names it. */
interface NamedAlgorithm {
  readonly name: string;
  readonly hash?: { readonly name: string };
  readonly namedCurve?: string;
  readonly modulusLength?: number;
}

/** The name of a signature algorithm, such as `ECDSA with SHA-256`. */
export const algorithmOf = ({ name, hash }: NamedAlgorithm): string =>
  hash ? `${name} with ${hash.name}` : name;

/** The algorithm of a key as WebCrypto names it, and its curve or size: `ECDSA P-256`, `RSASSA-PKCS1-v1_5 2048 bits`. */
export function keyKindOf({ algorithm }: PublicKey): string {
  const { name, namedCurve, modulusLength }: NamedAlgorithm = algorithm;
  const size = modulusLength === undefined ? "" : `${modulusLength} bits`;
  return [name, namedCurve ?? size].join(" ").trim();
}

/** Whether a signature is over SHA-1, which no verifier accepts any more. */
export const isOverSha1 = ({ hash }: NamedAlgorithm): boolean => hash?.name === "SHA-1";

/** Says why verifiers refuse a certificate: a signature over SHA-1, or a certified RSA key of fewer than 2048 bits. */
export function weaknessOf(signature: NamedAlgorithm, { algorithm }: PublicKey): readonly string[] {
  const { modulusLength = 2048 }: NamedAlgorithm = algorithm;
  return [
    ...(isOverSha1(signature) ? ["it is signed over SHA-1, which verifiers refuse"] : []),
    ...(modulusLength < 2048 ? [`its key has ${modulusLength} bits, and 2048 are the least`] : []),
  ];
}
