import { runWell } from "../../../testkit/programs/child-process.ts";
import type { Scratch } from "../scratch.ts";
import type { Answer, CertificateClient, KeyAndRequest } from "./client.ts";

/** Istio's `CitadelClient` (../istio-client). It retries by itself, and reports the last outcome. */
export function istioClient(program: string, scratch: Scratch): CertificateClient {
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
