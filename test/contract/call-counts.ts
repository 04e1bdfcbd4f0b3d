import { expect } from "vitest";
import { connectBinary, connectJson, grpcFrame, grpcWeb, octets, requestOf } from "./rpc-calls.ts";

/** A server of gRPC whose metrics can be read. */
interface CountingServer {
  readonly send: (request: Request) => Promise<Response>;
  readonly metrics: () => Promise<string>;
}

const series =
  /^grpc_server_handled_total\{grpc_type="unary",grpc_service="istio.v1.auth.IstioCertificateService",grpc_method="CreateCertificate",grpc_code="(\w+)"\} (\d+)$/gm;

interface Counts {
  readonly [code: string]: number;
  readonly timed: number;
  readonly started: number;
}

/** Reads the counts of calls by code, of timed calls, and of calls begun. */
async function counts({ metrics }: CountingServer): Promise<Counts> {
  const text = await metrics();
  const [, timed = "0"] = /^grpc_server_handling_seconds_count\{.*\} (\d+)$/m.exec(text) ?? [];
  const [, started = "0"] = /^grpc_server_started_total\{.*\} (\d+)$/m.exec(text) ?? [];
  const byCode = [...text.matchAll(series)].map(([, code, n]) => [code, Number(n)]);
  return { ...Object.fromEntries(byCode), timed: Number(timed), started: Number(started) };
}

const native = {
  name: "native gRPC",
  contentType: "application/grpc",
  encode: (call: { csr: string }) => octets(grpcFrame(connectBinary.encode(call))),
};

/** Protocols by the HTTP that they need. */
const countedProtocols = {
  "HTTP/2": [native, connectJson, connectBinary, grpcWeb],
  "HTTP/1.1": [connectJson, connectBinary, grpcWeb],
} as const;

/** Each protocol carries its status code in another place; the server counts calls by the code. */
export async function expectCallsCounted(
  server: CountingServer,
  version: keyof typeof countedProtocols,
  { csr, headers }: { readonly csr: string; readonly headers: Record<string, string> },
): Promise<void> {
  const calls: readonly [string, string, Record<string, string>][] = [
    ["OK", csr, headers],
    ["Unauthenticated", csr, { authorization: "Bearer junk" }],
    ["InvalidArgument", "junk", headers],
    // An unknown compression.
    ["Unimplemented", csr, { ...headers, "grpc-encoding": "x", "content-encoding": "x" }],
  ];
  for (const protocol of countedProtocols[version]) {
    for (const [code, text, more] of calls) {
      const before = await counts(server);
      const type = { "content-type": protocol.contentType };
      const body = protocol.encode({ csr: text });
      await (await server.send(requestOf(connectJson, body, { ...more, ...type }))).arrayBuffer();
      expect({ protocol: protocol.name, ...(await counts(server)) }).toEqual({
        protocol: protocol.name,
        ...before,
        [code]: (before[code] ?? 0) + 1,
        timed: before.timed + 1,
        started: before.started + 1,
      });
    }
  }
}
