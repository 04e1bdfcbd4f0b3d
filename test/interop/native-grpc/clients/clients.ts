import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { matrix } from "../../../pages/compatibility-matrix.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { fromGoModule, fromGoProxy, ofTheMachine, python } from "../../software.ts";
import type { Scratch } from "../scratch.ts";
import {
  type Answer,
  type CertificateClient,
  codeName,
  headersOf,
  type KeyAndRequest,
} from "./client.ts";
import { connectByCurl } from "./curl.ts";
import { grpcJsClient } from "./grpc-js.ts";
import { grpcurlClient } from "./grpcurl.ts";

/** The programs of this suite that npm does not install. */
export type Tools = Awaited<ReturnType<typeof installTools>>;

/** Builds one program after the other, because each build uses all processors. */
export async function installTools() {
  return {
    istioClient: await fromGoModule(
      join(import.meta.dirname, "../../istio-client"),
      "istio-client",
    ),
    grpcurl: await fromGoProxy("github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"),
    zlint: await fromGoProxy("github.com/zmap/zlint/v3/cmd/zlint@v3.5.0"),
    grpcio: await python("grpcio", ["grpcio==1.85.1", "grpcio-tools==1.85.1"]),
    curl: await ofTheMachine("curl", ["--version"], /\bHTTP2\b/),
    openssl: await ofTheMachine("openssl", ["version"], /OpenSSL 3/),
  };
}

/** A client, or the reason why it is missing. */
export type Found = CertificateClient | { readonly missing: string };

/** The clients of CreateCertificate, by their rows of the matrix. */
export async function createClients(
  tools: Tools,
  scratch: Scratch,
): Promise<Readonly<Record<Exclude<keyof typeof matrix, "sClient">, Found>>> {
  const { istioClient: istio, grpcurl, grpcio, curl } = tools;
  return {
    istio: "program" in istio ? istioClient(istio.program, scratch) : istio,
    grpcurl: "program" in grpcurl ? grpcurlClient(grpcurl.program) : grpcurl,
    grpcJs: grpcJsClient,
    grpcio: "program" in grpcio ? await grpcioClient(grpcio.program, scratch) : grpcio,
    connect: "program" in curl ? connectByCurl(scratch) : curl,
  };
}

const proto = join(import.meta.dirname, "../../../../proto");

/** Python's grpcio, with stubs of its own compiler (call.py). */
async function grpcioClient(python: string, scratch: Scratch): Promise<CertificateClient> {
  const stubs = join(scratch.folder, "stubs");
  await mkdir(stubs);
  const outputs = [`--python_out=${stubs}`, `--grpc_python_out=${stubs}`];
  const compile = ["-m", "grpc_tools.protoc", `-I${proto}`, ...outputs, "istio/v1/auth/ca.proto"];
  await runWell(python, compile);
  return {
    cannot: [],
    createCertificate: async ({ address, tls }, call) => {
      const { certificate, csr, validitySeconds, metadata } = call;
      const input = JSON.stringify({
        address,
        ...tls,
        certificate,
        headers: Object.entries(headersOf(call)),
        message: { csr, validityDuration: String(validitySeconds), metadata: metadata ?? {} },
      });
      const program = join(import.meta.dirname, "call.py");
      const answer = JSON.parse(await runWell(python, [program, stubs], { input })) as Answer;
      return "certChain" in answer ? answer : { ...answer, code: codeName(answer.code) };
    },
  };
}

/** Istio's `CitadelClient` (../istio-client). It retries by itself, and reports the last outcome. */
function istioClient(program: string, scratch: Scratch): CertificateClient {
  return {
    cannot: ["name an identity", "show an expired certificate"],
    createRequest: (spiffeId) => ask<KeyAndRequest>(program, "request", { spiffeId }),
    createCertificate: async ({ address, tls }, call) => {
      const { token, clusterId = "", certificate, metadata = {}, ...rest } = call;
      const tokenFile = token === undefined ? "" : await scratch.file("token", `${token}\n`);
      const input = { address, ...tls, tokenFile, clusterId, ...certificate, ...rest };
      const { CertSigner: certSigner = "" } = metadata;
      const output = await ask<{ certChain: string[] } | { error: string }>(program, "call", {
        ...input,
        certSigner,
      });
      return "error" in output ? parseError(output.error) : { code: "OK", ...output };
    },
  };
}

/** Sends JSON to a command of the program, and reads its answer. */
export async function ask<T>(program: string, command: string, input: object): Promise<T> {
  return JSON.parse(await runWell(program, [command], { input: JSON.stringify(input) })) as T;
}

function parseError(error: string): Answer {
  const [, code = "none", message = error] =
    /rpc error: code = (\w+) desc = (.*)/s.exec(error) ?? [];
  return { code, message };
}
