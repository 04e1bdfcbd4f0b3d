import { generateKeyPairSync, type KeyObject } from "node:crypto";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { createCertificateRequest } from "../../../src/program/certificate-request.ts";

/** A workload's fresh key, and the CSR for it in PEM. */
interface WorkloadKey {
  readonly privateKey: KeyObject;
  readonly csrPem: string;
}

/** Makes a key of P-256 and a CSR as Istio's agents do, for callers that send it themselves. */
export async function createWorkloadKey(spiffeId: string): Promise<WorkloadKey> {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const csrPem = await createCertificateRequest(keys, spiffeId as SpiffeId);
  return { privateKey: keys.privateKey, csrPem };
}
