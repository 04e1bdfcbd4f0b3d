import { Agent, request } from "node:http";
import { createSecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import type { ServingCertificate } from "../../src/node/tls.ts";
import { tlsOptions } from "../../src/node/tls.ts";
import { IssuingPath } from "../../src/transport/http/paths.ts";

type Answering = (body: Buffer, authorization: string) => Promise<Buffer>;

/** The bare handler: an HTTP/2 server over the same TLS that echoes each request's body. */
export function listenEchoing(certificate: ServingCertificate): Promise<number> {
  return listen(certificate, async (body) => body);
}

/**
 * The bare gateway: relays each message to a CA over persistent HTTP/1.1 connections, and the answer back. It
 * checks, counts and logs nothing.
 */
export function listenRelaying(certificate: ServingCertificate, port: number): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  return listen(certificate, async (body, authorization) => {
    const message = body.subarray(5);
    const answer = await new Promise<Buffer>((resolve, reject) => {
      const headers = {
        "content-type": "application/proto",
        "content-length": message.length,
        authorization,
      };
      const options = { agent, host: "127.0.0.1", port, method: "POST", headers };
      const outgoing = request({ ...options, path: IssuingPath.createCertificate }, (incoming) => {
        collect(incoming, resolve);
      });
      outgoing.on("error", reject);
      outgoing.end(message);
    });
    const head = Buffer.alloc(5);
    head.writeUInt32BE(answer.length, 1);
    return Buffer.concat([head, answer]);
  });
}

async function listen(certificate: ServingCertificate, answering: Answering): Promise<number> {
  const server = createSecureServer(tlsOptions({ certificate, clientRoots: "" }));
  server.on("stream", (stream, { authorization = "" }) => {
    collect(stream, (body) => void answering(body, authorization).then((b) => respond(stream, b)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

function collect(stream: NodeJS.ReadableStream, done: (body: Buffer) => void): void {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("end", () => done(Buffer.concat(chunks)));
}

function respond(stream: ServerHttp2Stream, body: Buffer): void {
  const headers = { ":status": 200, "content-type": "application/grpc+proto" };
  stream.respond(headers, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(body);
}
