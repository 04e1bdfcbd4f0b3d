import "reflect-metadata/lite";
import {
  type Extension,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
} from "@peculiar/x509";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { podUid } from "../callers/pod-key.ts";

const rsa = (modulusLength: number) => ({
  name: "RSASSA-PKCS1-v1_5",
  hash: "SHA-256",
  modulusLength,
  publicExponent: new Uint8Array([1, 0, 1]),
});

const algorithms = {
  "P-256": { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  "P-384": { name: "ECDSA", namedCurve: "P-384", hash: "SHA-256" },
  Ed25519: { name: "Ed25519" },
  "RSA-2048": rsa(2048),
  "RSA-3072": rsa(3072),
} as const;

type GeneralName = ConstructorParameters<typeof SubjectAlternativeNameExtension>[0];

/** A CSR without a subject, as kubelets make them for pods. */
export async function emptyCsr(
  kind: keyof typeof algorithms = "P-256",
  names: GeneralName & readonly unknown[] = [],
  others: readonly Extension[] = [],
): Promise<{ readonly pem: string; readonly base64: string }> {
  const algorithm = algorithms[kind];
  const keys = (await crypto.subtle.generateKey(algorithm, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const extensions = [
    ...(names.length > 0 ? [new SubjectAlternativeNameExtension(names)] : []),
    ...others,
  ];
  const csr = await Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: algorithm,
    ...(extensions.length > 0 && { extensions }),
  });
  return { pem: `${csr.toString("pem")}\n`, base64: Base64.format(new Uint8Array(csr.rawData)) };
}

/** A PodCertificateRequest as Kubernetes 1.36 writes it. */
export function podRequestJson(spec: object, status: object = {}, name = "req-1") {
  return {
    metadata: { namespace: "shop", name, uid: `uid-of-${name}`, resourceVersion: "7" },
    spec: {
      signerName: "mesh.example.com/workload",
      podName: "web-0",
      podUID: podUid,
      serviceAccountName: "web",
      serviceAccountUID: "50c83e1b-0d38-431c-a0d9-a55e182609f8",
      nodeName: "node-1",
      nodeUID: "22a96751-c1a4-44e5-8c72-d4a00148e01b",
      maxExpirationSeconds: 86_400,
      pkixPublicKey: null,
      proofOfPossession: null,
      ...spec,
    },
    status,
  };
}

/** A CertificateSigningRequest of the account `shop/web`. */
export function serviceRequestJson(csrPem: string, spec: object = {}, status: object = {}) {
  return {
    metadata: { name: "csr-1", uid: "uid-of-csr-1", resourceVersion: "8" },
    spec: {
      signerName: "mesh.example.com/workload",
      request: Base64.format(new TextEncoder().encode(csrPem)),
      username: "system:serviceaccount:shop:web",
      usages: ["digital signature", "server auth"],
      ...spec,
    },
    status,
  };
}

/** An approved CertificateRequest of cert-manager in `shop`, created by the pod of the account `web`. */
export function certManagerRequestJson(
  csrPem: string,
  {
    metadata = {},
    spec = {},
    conditions = [],
  }: Partial<Record<"metadata" | "spec", object>> & {
    readonly conditions?: readonly object[];
  } = {},
) {
  return {
    metadata: { namespace: "shop", name: "cr-1", uid: "uid-of-cr-1", ...metadata },
    spec: {
      request: Base64.format(new TextEncoder().encode(csrPem)),
      issuerRef: { group: "rampart.dev", kind: "RampartClusterIssuer", name: "mesh" },
      usages: ["client auth", "server auth"],
      duration: "1h0m0s",
      username: "system:serviceaccount:shop:web",
      ...spec,
    },
    status: { conditions: [{ type: "Approved", status: "True", reason: "a" }, ...conditions] },
  };
}
