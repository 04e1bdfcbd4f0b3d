import { readFile } from "node:fs/promises";
import { run } from "../../../testkit/programs/child-process.ts";
import type { Scratch } from "../scratch.ts";
import { type Call, type CertificateClient, codeName, headersOf, type Server } from "./client.ts";

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** Calls by Connect, in JSON. */
export function connectByCurl(scratch: Scratch): CertificateClient {
  return {
    cannot: [],
    createCertificate: async (server, call) => {
      const { csr, validitySeconds, metadata } = call;
      const input = JSON.stringify({ csr, validityDuration: String(validitySeconds), metadata });
      const output = await scratch.file("reply", "");
      const told = ["--output", output, "--write-out", "%{http_version}", "--data-binary", "@-"];
      const values = [...curlFlags(server, call), "-H", "content-type: application/json", ...told];
      const ended = await run("curl", [...values, `${originOf(server)}${path}`], { input });
      const reply = await readFile(output, "utf8");
      // A server may answer before the request has ended (RFC 9113 §8.1). curl 7 reports an error then, even if the
      // answer is complete. A missing one is what a gRPC client calls Unavailable.
      if (ended.exitCode !== 0 && reply === "")
        return { code: "Unavailable", message: ended.stderr.trim() };
      if (ended.stdout !== (server.tls ? "2" : "1.1"))
        return { code: "none", message: `HTTP/${ended.stdout}` };
      if (!reply.startsWith("{")) return { code: "none", message: reply.slice(0, 200) };
      const { code = "OK", ...rest } = JSON.parse(reply) as { code?: string; message: string };
      return code === "OK" ? { code, certChain: [], ...rest } : { ...rest, code: codeName(code) };
    },
  };
}

function originOf({ address, tls }: Server): string {
  return tls ? `https://${tls.serverName}:${portOf(address)}` : `http://${address}`;
}

const portOf = (address: string): string => address.split(":").at(-1) ?? "";

function curlFlags({ address, tls }: Server, call: Call): string[] {
  const { certificate } = call;
  return [
    "--silent",
    "--show-error",
    "--max-time",
    "20",
    ...(tls ? ["--http2", "--cacert", tls.rootsFile] : []),
    ...(tls ? ["--resolve", `${tls.serverName}:${portOf(address)}:127.0.0.1`] : []),
    ...(certificate ? ["--cert", certificate.certificateFile, "--key", certificate.keyFile] : []),
    ...Object.entries(headersOf(call)).flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
  ];
}
