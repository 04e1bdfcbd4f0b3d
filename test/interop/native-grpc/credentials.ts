import { setTimeout as sleep } from "node:timers/promises";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { CertificateFiles, KeyAndRequest, Server } from "./clients/client.ts";
import { grpcJsClient } from "./clients/grpc-js.ts";
import type { Mesh } from "./mesh.ts";
import type { Scratch } from "./scratch.ts";

/** Client certificates of one server's mesh, and a forged one. */
export interface ClientCertificates {
  readonly valid: CertificateFiles;
  readonly expired: CertificateFiles;
  readonly ofAnotherCa: CertificateFiles;
}

/** The workload of the client certificates. */
export const holder = { account: "foo/vm", spiffeId: "spiffe://cluster.local/ns/foo/sa/vm" };

export async function obtainCertificates(
  server: Server,
  mesh: Mesh,
  scratch: Scratch,
): Promise<ClientCertificates> {
  const token = await mesh.token(holder);
  const [valid, expired, ofAnotherCa] = await Promise.all([
    obtain(server, token, 3600, scratch),
    obtain(server, token, 1, scratch),
    makeAnother(scratch),
  ]);
  await sleep(1_500);
  return { valid, expired, ofAnotherCa };
}

async function obtain(
  server: Server,
  token: string,
  validitySeconds: number,
  scratch: Scratch,
): Promise<CertificateFiles> {
  const { csr, keyPem } = await pilotAgentRequest(holder.spiffeId);
  const answer = await grpcJsClient.createCertificate(server, { csr, validitySeconds, token });
  if (!("certChain" in answer)) throw new Error(`${answer.code}: ${answer.message}`);
  return inFiles(scratch, answer.certChain[0] ?? "", keyPem);
}

export async function inFiles(
  scratch: Scratch,
  chainPem: string,
  keyPem: string,
): Promise<CertificateFiles> {
  const certificateFile = await scratch.file("certificate", chainPem);
  return { certificateFile, keyFile: await scratch.file("key", keyPem) };
}

/** A P-256 key and its CSR. */
export async function pilotAgentRequest(spiffeId: string): Promise<KeyAndRequest> {
  const { privateKey, csrPem } = await createWorkloadKey(spiffeId);
  return { csr: csrPem, keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
}

const p256 = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/** A certificate with the same names by an authority of the same name and another key. */
async function makeAnother(scratch: Scratch): Promise<CertificateFiles> {
  const paths = await Promise.all(
    ["ca", "ca-key", "leaf", "leaf-key"].map((stem) => scratch.file(stem, "")),
  );
  const [ca = "", caKey = "", certificateFile = "", keyFile = ""] = paths;
  const self = ["req", "-x509", "-days", "1", ...p256];
  const authority = [
    "-subj",
    "/O=cluster.local",
    "-addext",
    "keyUsage=critical,keyCertSign,cRLSign",
  ];
  await runWell("openssl", [...self, ...authority, "-keyout", caKey, "-out", ca]);
  const extensions = [
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=clientAuth,serverAuth",
    `subjectAltName=critical,URI:${holder.spiffeId}`,
  ].flatMap((extension) => ["-addext", extension]);
  const leaf = ["-CA", ca, "-CAkey", caKey, "-subj", "/O=x", ...extensions];
  await runWell("openssl", [...self, ...leaf, "-keyout", keyFile, "-out", certificateFile]);
  return { certificateFile, keyFile };
}
