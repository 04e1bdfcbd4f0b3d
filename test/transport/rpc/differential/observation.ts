import { createHash, X509Certificate } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import { IstioCertificateResponseSchema } from "../../../../src/gen/istio/v1/auth/ca_pb.ts";
import type { RpcResponse } from "../../../../src/transport/rpc/rpc.ts";
import type { AuditLine } from "../../../testkit/log/event-recorder.ts";

/** An answer and its audit events, field by field, as text. */
export interface Observation {
  readonly [field: string]: string | undefined;
  readonly message?: string;
}

/**
 * Observes all of an answer but what differs between any two certificates: serial number, signature, and
 * with it the length.
 */
export function observe(response: RpcResponse, audits: readonly AuditLine[]): Observation {
  const { status, octets } = response;
  const header = new Headers(response.header);
  const contentType = header.get("content-type") ?? "";
  const isWeb = contentType.startsWith("application/grpc-web");
  const { body, trailer } = isWeb
    ? splitWeb(octets)
    : { body: octets, trailer: new Headers(response.trailer) };
  const length = header.get("content-length");
  const sent = trailer.get("grpc-message");
  return {
    status: String(status),
    ...prefixed("header", header),
    ...(length !== null && { "header content-length": relation(length, octets) }),
    ...prefixed("trailer", trailer),
    ...(typeof sent === "string" && { message: decodeURIComponent(sent) }),
    ...contentOf(contentType, body),
    audit: JSON.stringify(audits, (name, value) => (isUnique(name) ? "unique" : value)),
  };
}

function prefixed(prefix: string, headers: Headers): Record<string, string> {
  return Object.fromEntries([...headers].map(([name, value]) => [`${prefix} ${name}`, value]));
}

const relation = (length: string, octets: Uint8Array): string =>
  length === String(octets.length) ? "that of the body" : "another than that of the body";

const isUnique = (name: string): boolean =>
  ["serialNumber", "durationMilliseconds", "requestId", "traceId", "spanId"].includes(name);

/** The trailers of gRPC-Web are in a frame at the end of the body. */
function splitWeb(octets: Uint8Array): { body: Uint8Array; trailer: Headers } {
  const view = new DataView(octets.buffer, octets.byteOffset);
  const end = view.getUint8(0) === 0x80 ? 0 : 5 + view.getUint32(1);
  const text = new TextDecoder().decode(octets.subarray(end + 5));
  const lines = text.split("\r\n").filter((line) => line !== "");
  const trailer = new Headers(lines.map((line) => line.split(": ", 2) as [string, string]));
  return { body: octets.subarray(0, end), trailer };
}

function contentOf(contentType: string, octets: Uint8Array): Record<string, string> {
  if (octets.length === 0) return { body: "none" };
  if (contentType.startsWith("application/grpc")) return { body: frameOf(contentType, octets) };
  if (contentType === "application/proto") return { body: chainIn(octets) };
  const { message, ...rest } = JSON.parse(new TextDecoder().decode(octets));
  if (rest.certChain) return { body: summaryOf(rest.certChain) };
  return { body: JSON.stringify(rest), ...(message !== undefined && { message }) };
}

function frameOf(contentType: string, octets: Uint8Array): string {
  const view = new DataView(octets.buffer, octets.byteOffset);
  const shape = `flags ${view.getUint8(0)}, ${5 + view.getUint32(1) - octets.length} octets missing`;
  const message = octets.subarray(5);
  const isJson = contentType.endsWith("json");
  const text = () => summaryOf(JSON.parse(new TextDecoder().decode(message)).certChain);
  return `${shape}: ${isJson ? text() : chainIn(message)}`;
}

const chainIn = (message: Uint8Array): string =>
  summaryOf(fromBinary(IstioCertificateResponseSchema, message).certChain);

function summaryOf([leaf = "", ...roots]: readonly string[]): string {
  const { subject, subjectAltName, validFrom, validTo, publicKey, keyUsage } = new X509Certificate(
    leaf,
  );
  const spki = publicKey.export({ type: "spki", format: "der" });
  const hashes = [spki, ...roots].map((each) => createHash("sha256").update(each).digest("hex"));
  return JSON.stringify({ subject, subjectAltName, validFrom, validTo, keyUsage, hashes });
}
