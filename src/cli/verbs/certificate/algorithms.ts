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

/** The kind of a key and its size, such as `ECDSA P-256`. */
export function keyOf({ algorithm }: PublicKey): string {
  const { name, namedCurve, modulusLength }: NamedAlgorithm = algorithm;
  const size = modulusLength === undefined ? "" : `${modulusLength} bits`;
  return [name, namedCurve ?? size].join(" ").trim();
}

/** Whether a signature counts nowhere any more. */
export const isOverSha1 = ({ hash }: NamedAlgorithm): boolean => hash?.name === "SHA-1";

/** What verifiers of today refuse about a signature or the key that is certified. */
export function weaknessOf(signature: NamedAlgorithm, { algorithm }: PublicKey): readonly string[] {
  const { modulusLength = 2048 }: NamedAlgorithm = algorithm;
  return [
    ...(isOverSha1(signature) ? ["it is signed over SHA-1, which verifiers refuse"] : []),
    ...(modulusLength < 2048 ? [`its key has ${modulusLength} bits, and 2048 are the least`] : []),
  ];
}
