import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../../testkit/programs/child-process.ts";
import type { Scratch } from "../scratch.ts";
import { type Answer, type CertificateClient, codeName } from "./client.ts";

const proto = join(import.meta.dirname, "../../../../proto");

/** Python's grpcio, with stubs of its own compiler (call.py). */
export async function grpcioClient(python: string, scratch: Scratch): Promise<CertificateClient> {
  const stubs = join(scratch.folder, "stubs");
  await mkdir(stubs);
  const outputs = [`--python_out=${stubs}`, `--grpc_python_out=${stubs}`];
  const compile = ["-m", "grpc_tools.protoc", `-I${proto}`, ...outputs, "istio/v1/auth/ca.proto"];
  await runWell(python, compile);
  return {
    cannot: [],
    createCertificate: async ({ address, tls }, call) => {
      const { token, clusterId, headers = {}, certificate, csr, validitySeconds, metadata } = call;
      const input = JSON.stringify({
        address,
        ...tls,
        certificate,
        headers: [
          ...(token === undefined ? [] : [["authorization", `Bearer ${token}`]]),
          ...(clusterId === undefined ? [] : [["clusterid", clusterId]]),
          ...Object.entries(headers),
        ],
        message: { csr, validityDuration: String(validitySeconds), metadata: metadata ?? {} },
      });
      const program = join(import.meta.dirname, "call.py");
      const answer = JSON.parse(await runWell(python, [program, stubs], { input })) as Answer;
      return "certChain" in answer ? answer : { ...answer, code: codeName(answer.code) };
    },
  };
}
