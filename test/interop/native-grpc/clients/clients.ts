import type { matrix } from "../../../pages/compatibility-matrix.ts";
import { fromGoModule, fromGoProxy, ofTheMachine, python, type Software } from "../../software.ts";
import type { Scratch } from "../scratch.ts";
import type { CertificateClient } from "./client.ts";
import { connectByCurl, grpcWebByCurl } from "./curl.ts";
import { grpcJsClient } from "./grpc-js.ts";
import { grpcioClient } from "./grpcio.ts";
import { grpcurlClient } from "./grpcurl.ts";
import { istioClient } from "./istio.ts";

/** The programs of this suite that npm does not install. */
export interface Tools {
  readonly istioClient: Software;
  readonly grpcurl: Software;
  readonly zlint: Software;
  readonly grpcio: Software;
  readonly curl: Software;
  readonly openssl: Software;
  readonly jq: Software;
}

/** Builds one program after the other, because each build uses all processors. */
export async function installTools(istioClientFolder: string): Promise<Tools> {
  return {
    istioClient: await fromGoModule(istioClientFolder, "istio-client"),
    grpcurl: await fromGoProxy("github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"),
    zlint: await fromGoProxy("github.com/zmap/zlint/v3/cmd/zlint@v3.5.0"),
    grpcio: await python("grpcio", ["grpcio==1.85.1", "grpcio-tools==1.85.1"]),
    curl: await ofTheMachine("curl", ["--version"], /\bHTTP2\b/),
    openssl: await ofTheMachine("openssl", ["version"], /OpenSSL 3/),
    jq: await ofTheMachine("jq", ["--version"], /jq/),
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
    grpcWeb: "program" in curl ? grpcWebByCurl(scratch) : curl,
  };
}
