import { join } from "node:path";
import { type Ended, run } from "../../../testkit/programs/child-process.ts";
import {
  type Answer,
  type Call,
  type CertificateClient,
  headersOf,
  type Server,
} from "./client.ts";

const proto = join(import.meta.dirname, "../../../../proto");
const protoFiles = ["istio/v1/auth/ca.proto", "grpc/health/v1/health.proto"];
const protoFlags = ["-import-path", proto, ...protoFiles.flatMap((file) => ["-proto", file])];
const service = "istio.v1.auth.IstioCertificateService";

/** Uses the proto files, because no port has reflection. */
export function grpcurlClient(program: string): CertificateClient {
  const grpcurl = (
    server: Server,
    flags: readonly string[],
    values: readonly string[],
    input = "",
  ) =>
    run(program, [...tlsFlags(server), ...protoFlags, ...flags, server.address, ...values], {
      input,
    });
  const health = (server: Server, of = "") =>
    grpcurl(server, ["-d", JSON.stringify({ service: of })], ["grpc.health.v1.Health/Check"]);
  const serving = (of?: string) => async (server: Server) => {
    const { stdout, stderr } = await health(server, of);
    return stdout.includes('"SERVING"') ? undefined : stdout + stderr;
  };
  return {
    cannot: [],
    createCertificate: async (server, call) =>
      answerOf(
        await grpcurl(server, callFlags(call), [`${service}/CreateCertificate`], body(call)),
      ),
    more: {
      "asks for the server's health": serving(),
      "asks for the service's health": serving(service),
      "does not find the health of another service": async (server) => {
        const { code } = answerOf(await health(server, "x.Y"));
        return code === "NotFound" ? undefined : code;
      },
    },
  };
}

function tlsFlags({ tls }: Server): string[] {
  return tls ? ["-cacert", tls.rootsFile, "-authority", tls.serverName] : ["-plaintext"];
}

function callFlags(call: Call): string[] {
  const { certificate } = call;
  return [
    ...Object.entries(headersOf(call)).flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
    ...(certificate ? ["-cert", certificate.certificateFile, "-key", certificate.keyFile] : []),
    "-d",
    "@",
  ];
}

function body({ csr, validitySeconds, metadata }: Call): string {
  return JSON.stringify({ csr, validityDuration: String(validitySeconds), metadata });
}

function answerOf({ exitCode, stdout, stderr }: Ended): Answer {
  if (exitCode === 0) return { code: "OK", certChain: [], ...(JSON.parse(stdout) as object) };
  const [, code, message = ""] = /Code: (\w+)\n\s*Message: (.*)/.exec(stderr) ?? [];
  if (code !== undefined) return { code, message };
  // grpcurl has no code for a failed connection. All other clients call it Unavailable.
  const isDown = stderr.includes("Failed to dial");
  return { code: isDown ? "Unavailable" : "none", message: stderr.trim() };
}
