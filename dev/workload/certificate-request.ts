import "reflect-metadata/lite";
import { KeyObject, webcrypto } from "node:crypto";
import { Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from "@peculiar/x509";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** A workload's fresh key, and the CSR for it in PEM. */
interface WorkloadKey {
  readonly privateKey: KeyObject;
  readonly csrPem: string;
}

/**
 * Makes a key and a CSR as pilot-agent does. The key is of P-256, the subject an empty organisation, and a
 * critical SAN names the workload (istio `security/pkg/pki/util/generate_csr.go`).
 */
export async function createWorkloadKey(spiffeId: string): Promise<WorkloadKey> {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const csr = await Pkcs10CertificateRequestGenerator.create({
    name: [{ O: [""] }],
    keys,
    signingAlgorithm: algorithm,
    extensions: [new SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }], true)],
  });
  return { privateKey: KeyObject.from(keys.privateKey), csrPem: `${csr.toString("pem")}\n` };
}
