import { readFile } from "node:fs/promises";
import { run } from "../../../testkit/programs/child-process.ts";
import type { Scratch } from "../scratch.ts";
import { type Answer, type Call, type CertificateClient, codeName, type Server } from "./client.ts";
import { decode, encode } from "./grpc-js.ts";

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** Calls by Connect, in JSON. */
export function connectByCurl(scratch: Scratch): CertificateClient {
  return {
    cannot: [],
    createCertificate: async (server, call) => {
      const { csr, validitySeconds, metadata } = call;
      const json = JSON.stringify({ csr, validityDuration: String(validitySeconds), metadata });
      const reply = await post(scratch, server, call, "application/json", Buffer.from(json));
      if ("code" in reply) return reply;
      const { code = "OK", ...rest } = JSON.parse(reply.body.toString()) as {
        code?: string;
        message: string;
      };
      return code === "OK" ? { code, certChain: [], ...rest } : { ...rest, code: codeName(code) };
    },
  };
}

/** Calls by gRPC-Web, whose body ends in a frame of trailers. */
export function grpcWebByCurl(scratch: Scratch): CertificateClient {
  return {
    cannot: [],
    createCertificate: async (server, call) => {
      const body = frame(encode(call));
      const reply = await post(scratch, server, call, "application/grpc-web+proto", body);
      if ("code" in reply) return reply;
      const frames = [...framesOf(reply.body)];
      const trailers = `${reply.headers}\n${frames.find(({ flags }) => flags === 0x80)?.content}`;
      const status = /^grpc-status: ?(\d+)/im.exec(trailers)?.[1] ?? "none";
      const message = frames.find(({ flags }) => flags === 0)?.content;
      if (status === "0" && message) return { code: "OK", certChain: decode(message) };
      const words = /^grpc-message: ?(.*)/im.exec(trailers)?.[1] ?? "";
      return { code: grpcCodes[Number(status)] ?? "none", message: decodeURIComponent(words) };
    },
  };
}

/** The codes of gRPC that a CA answers. */
const grpcCodes: Readonly<Record<number, string>> = {
  3: "InvalidArgument",
  4: "DeadlineExceeded",
  7: "PermissionDenied",
  8: "ResourceExhausted",
  12: "Unimplemented",
  13: "Internal",
  14: "Unavailable",
  16: "Unauthenticated",
};

interface Reply {
  readonly headers: string;
  readonly body: Buffer;
}

/** The reply. A missing one is what a gRPC client calls Unavailable. */
async function post(
  scratch: Scratch,
  server: Server,
  call: Call,
  contentType: string,
  body: Buffer,
): Promise<Reply | Answer> {
  const values = [...curlFlags(server, call), "-H", `content-type: ${contentType}`];
  const output = await scratch.file("reply", "");
  const url = `${originOf(server)}${path}`;
  const files = ["--dump-header", `${output}.headers`, "--output", output];
  const told = ["--write-out", "%{http_version}", "--data-binary", "@-", url];
  const ended = await run("curl", [...values, ...files, ...told], { input: body });
  const reply = await readFile(output);
  // A server may answer before the request has ended (RFC 9113 §8.1). curl 7 reports an error then,
  // even if the answer is complete.
  if (ended.exitCode !== 0 && reply.length === 0) {
    return { code: "Unavailable", message: ended.stderr.trim() };
  }
  if (ended.stdout !== (server.tls ? "2" : "1.1")) {
    return { code: "none", message: `HTTP/${ended.stdout}` };
  }
  return { headers: await readFile(`${output}.headers`, "utf8"), body: reply };
}

function originOf({ address, tls }: Server): string {
  return tls ? `https://${tls.serverName}:${portOf(address)}` : `http://${address}`;
}

const portOf = (address: string): string => address.split(":").at(-1) ?? "";

function curlFlags({ address, tls }: Server, call: Call): string[] {
  const { token, clusterId, headers = {}, certificate } = call;
  const all = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(clusterId !== undefined && { clusterid: clusterId }),
    ...headers,
  };
  return [
    "--silent",
    "--show-error",
    "--max-time",
    "20",
    ...(tls ? ["--http2", "--cacert", tls.rootsFile] : []),
    ...(tls ? ["--resolve", `${tls.serverName}:${portOf(address)}:127.0.0.1`] : []),
    ...(certificate ? ["--cert", certificate.certificateFile, "--key", certificate.keyFile] : []),
    ...Object.entries(all).flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
  ];
}

/** The prefix of five octets that gRPC puts before a message. */
function frame(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function* framesOf(body: Buffer): Generator<{ readonly flags: number; readonly content: Buffer }> {
  for (let at = 0; at + 5 <= body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    yield { flags: body.readUInt8(at), content: body.subarray(at + 5, end) };
    at = end;
  }
}
