import {
  bitLength,
  rsaModulusOf,
  type SubjectPublicKey,
} from "../../pki/x509/subject-public-key.ts";

/** The types of key that a pod may ask for, by Kubernetes' names. */
export const podKeyTypes = [
  "ECDSAP256",
  "ECDSAP384",
  "ECDSAP521",
  "ED25519",
  "RSA3072",
  "RSA4096",
] as const;

export type PodKeyType = (typeof podKeyTypes)[number];

/** The type of a key; `undefined` for one that is none of them. */
export function podKeyTypeOf(key: SubjectPublicKey): PodKeyType | undefined {
  switch (key.algorithm) {
    case "EC-P256":
      return "ECDSAP256";
    case "EC-P384":
      return "ECDSAP384";
    case "EC-P521":
      return "ECDSAP521";
    case "Ed25519":
      return "ED25519";
    case "RSA":
      return podKeyTypes.find((type) => type === `RSA${bitLength(rsaModulusOf(key))}`);
  }
}
