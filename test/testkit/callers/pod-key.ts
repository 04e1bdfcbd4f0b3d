import { Base64 } from "../../../src/pki/encoding/base64.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { toX509Signature } from "../../../src/pki/signature-writer.ts";

/** The key of a pod, as a kubelet before 1.36 proves it. Runs wherever WebCrypto does. */
export interface PodKey {
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Bytes;
  readonly publicKeyPem: string;
  /** The signature over the UID of a pod, in base64. */
  readonly proof: (uid: string) => Promise<string>;
}

export const podUid = "0b5e6a1c-6a3f-4a5e-9b0f-5d1b8c7e2a90";

interface PodKeyForm {
  readonly generate: RsaHashedKeyGenParams | EcKeyGenParams | Algorithm;
  readonly sign: RsaPssParams | EcdsaParams | Algorithm;
  readonly scalarOctets?: number;
}

const ecdsa = (namedCurve: string, scalarOctets: number): PodKeyForm => ({
  generate: { name: "ECDSA", namedCurve },
  sign: { name: "ECDSA", hash: "SHA-256" },
  scalarOctets,
});

const pss = (saltLength: number): PodKeyForm => ({
  generate: {
    name: "RSA-PSS",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
    hash: "SHA-256",
  },
  sign: { name: "RSA-PSS", saltLength },
});

const forms = {
  "P-256": ecdsa("P-256", 32),
  "P-384": ecdsa("P-384", 48),
  "P-521": ecdsa("P-521", 66),
  Ed25519: { generate: { name: "Ed25519" }, sign: { name: "Ed25519" } },
  "RSA (longest salt)": pss(222),
  "RSA (salt of the hash)": pss(32),
} as const satisfies Readonly<Record<string, PodKeyForm>>;

export type PodKeyKind = keyof typeof forms;

export const podKeyKinds: readonly PodKeyKind[] = Object.keys(forms) as PodKeyKind[];

export async function createPodKey(kind: PodKeyKind): Promise<PodKey> {
  const { generate, sign, scalarOctets }: PodKeyForm = forms[kind];
  const { publicKey, privateKey } = (await crypto.subtle.generateKey(generate, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const spki = new Uint8Array((await crypto.subtle.exportKey("spki", publicKey)) as ArrayBuffer);
  return {
    spki,
    publicKeyPem: Pem.format("PUBLIC KEY", spki),
    proof: async (uid) => {
      const octets = new TextEncoder().encode(uid);
      const signature = new Uint8Array(await crypto.subtle.sign(sign, privateKey, octets));
      return Base64.format(scalarOctets ? toX509Signature(signature, scalarOctets) : signature);
    },
  };
}
