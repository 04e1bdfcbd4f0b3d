import { create, type JsonObject, toBinary, toJson } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import {
  IstioCertificateRequestSchema,
  IstioCertificateService,
} from "../../src/gen/istio/v1/auth/ca_pb.ts";
import { mintAccountToken } from "../testkit/callers/tokens.ts";
import { issuers, origin, rpcPath, type ServiceUnderTest } from "./service-under-test.ts";

/** The fields of a call as a workload sends them. */
export interface CertificateCall {
  readonly csr?: string;
  readonly validityDuration?: bigint;
  readonly metadata?: JsonObject;
}

/** An answer as its caller sees it. */
export type Outcome =
  | { readonly certChain: readonly string[] }
  | { readonly code: string; readonly message: string };

/** A protocol, and how it puts a call on the wire. */
export interface Protocol {
  readonly name: string;
  readonly contentType: string;
  readonly timeoutHeader: string;
  /** A timeout as that header writes it. */
  readonly timeout: (milliseconds: number) => string;
  readonly encode: (call: CertificateCall) => Uint8Array<ArrayBuffer>;
  readonly transport: (service: ServiceUnderTest) => Transport;
}

const toMessage = (call: CertificateCall) => create(IstioCertificateRequestSchema, call);
const toOctets = (call: CertificateCall) =>
  octets(toBinary(IstioCertificateRequestSchema, toMessage(call)));

/** @param text Encoded as UTF-8. */
export function octets(text: string | Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof text === "string" ? new TextEncoder().encode(text) : text);
}

/** A frame of gRPC: a flag, the length, the message. */
export function grpcFrame(message: Uint8Array, flag = 0): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(5 + message.length);
  const view = new DataView(frame.buffer);
  view.setUint8(0, flag);
  view.setUint32(1, message.length);
  frame.set(message, 5);
  return frame;
}

const sending = (service: ServiceUnderTest) => ({
  baseUrl: origin,
  // The clients set the redirect mode "error", which workerd does not know.
  fetch: (input: RequestInfo | URL, init?: RequestInit) =>
    service.send(new Request(input as string, { ...init, redirect: "manual" })),
});

export const connectJson: Protocol = {
  name: "Connect JSON",
  contentType: "application/json",
  timeoutHeader: "connect-timeout-ms",
  timeout: String,
  encode: (call) => octets(JSON.stringify(toJson(IstioCertificateRequestSchema, toMessage(call)))),
  transport: (service) => createConnectTransport({ ...sending(service), useBinaryFormat: false }),
};

export const connectBinary: Protocol = {
  name: "Connect binary",
  contentType: "application/proto",
  timeoutHeader: "connect-timeout-ms",
  timeout: String,
  encode: toOctets,
  transport: (service) => createConnectTransport({ ...sending(service), useBinaryFormat: true }),
};

export const grpcWeb: Protocol = {
  name: "gRPC-Web",
  contentType: "application/grpc-web+proto",
  timeoutHeader: "grpc-timeout",
  timeout: (milliseconds) => `${milliseconds}m`,
  encode: (call) => grpcFrame(toOctets(call)),
  transport: (service) => createGrpcWebTransport({ ...sending(service), useBinaryFormat: true }),
};

export const protocols: readonly Protocol[] = [connectJson, connectBinary, grpcWeb];

/** A call by Connect's own client. */
export async function callWithClient(
  protocol: Protocol,
  service: ServiceUnderTest,
  call: CertificateCall,
  headers: HeadersInit,
): Promise<Outcome> {
  const client = createClient(IstioCertificateService, protocol.transport(service));
  try {
    const { certChain } = await client.createCertificate(call, { headers });
    return { certChain };
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return { code: Code[error.code], message: error.rawMessage };
  }
}

/** The `retry-after` of an answer: a header over Connect, a trailer over gRPC-Web. */
export async function retryAfterIn(protocol: Protocol, response: Response): Promise<string | null> {
  if (protocol !== grpcWeb) return response.headers.get("retry-after");
  const body = new TextDecoder().decode(await response.arrayBuffer());
  return /^retry-after: (.*)\r$/m.exec(body)?.[1] ?? null;
}

/** The request of a call, which a test may still change. */
export function requestOf(
  protocol: Protocol,
  body: CertificateCall | BodyInit | null,
  headers: HeadersInit,
): Request {
  const isCall = body !== null && Object.getPrototypeOf(body) === Object.prototype;
  const all = new Headers(headers);
  if (!all.has("content-type")) all.set("content-type", protocol.contentType);
  return new Request(`${origin}${rpcPath}`, {
    method: "POST",
    headers: all,
    body: isCall ? protocol.encode(body as CertificateCall) : (body as BodyInit | null),
    ...(body instanceof ReadableStream && { duplex: "half" }),
  });
}

/** Reads the outcome of a response without the help of a client. */
export async function outcomeOf(protocol: Protocol, response: Response): Promise<Outcome> {
  return protocol === grpcWeb ? grpcWebOutcome(response) : connectOutcome(response);
}

async function connectOutcome(response: Response): Promise<Outcome> {
  if (response.headers.get("content-type") === "application/proto") {
    return { certChain: certChainIn(new Uint8Array(await response.arrayBuffer())) };
  }
  const json = (await response.json()) as { certChain?: string[]; code?: string; message?: string };
  if (response.status === 200) return { certChain: json.certChain ?? [] };
  return { code: pascalCase(json.code ?? ""), message: json.message ?? "" };
}

async function grpcWebOutcome(response: Response): Promise<Outcome> {
  const body = new Uint8Array(await response.arrayBuffer());
  let certChain: string[] = [];
  const trailers = new Headers();
  for (let at = 0; at < body.length; ) {
    const length = new DataView(body.buffer).getUint32(at + 1);
    const message = body.subarray(at + 5, at + 5 + length);
    if (body[at] === 0x80) readTrailers(message, trailers);
    else certChain = certChainIn(message);
    at += 5 + length;
  }
  const status = trailers.get("grpc-status");
  if (status === "0") return { certChain };
  const message = decodeURIComponent(trailers.get("grpc-message") ?? "");
  return { code: Code[Number(status)] ?? `status ${status}`, message };
}

function readTrailers(message: Uint8Array, trailers: Headers): void {
  for (const line of new TextDecoder().decode(message).split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) trailers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
}

/** Reads `repeated string cert_chain = 1` by hand: tag 0x0a, the length as a varint, the text. */
function certChainIn(message: Uint8Array): string[] {
  const chain: string[] = [];
  for (let at = 0; at < message.length; ) {
    if (message[at++] !== 0x0a) throw new Error("an element of another field");
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const octet = message[at++] ?? 0;
      length |= (octet & 0x7f) << shift;
      if (octet < 0x80) break;
    }
    chain.push(new TextDecoder().decode(message.subarray(at, at + length)));
    at += length;
  }
  return chain;
}

function pascalCase(code: string): string {
  return code.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** The headers of a workload's call: a fresh token of an issuer for `namespace:name`. */
export async function bearer(
  service: Pick<ServiceUnderTest, "key" | "now">,
  account = "foo:bar",
  issuer: string = issuers.cluster,
): Promise<{ authorization: string }> {
  const token = await mintAccountToken(service.key, issuer, account, service.now());
  return { authorization: `Bearer ${token}` };
}
