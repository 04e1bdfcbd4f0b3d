import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { type AnswerFields, parseConnectTimeout } from "../../../foundation/headers.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import type { RpcRequest, RpcResponse } from "../rpc.ts";
import { answerUnary, asConnectError, retryAfterOf, type UnaryMethod } from "./unary-call.ts";

const protobuf = "application/proto";
const json = "application/json";
const timeoutHeader = "connect-timeout-ms";

/**
 * Whether this is a unary call of Connect as gateways and agents send it: in protobuf, not compressed
 * (Connect protocol, Unary-Request).
 */
export function isConnectUnary({ method, header }: RpcRequest): boolean {
  return (
    method === "POST" &&
    header.get("content-type") === protobuf &&
    (header.get("content-encoding") ?? "identity") === "identity" &&
    parseConnectTimeout(header.get(timeoutHeader) ?? "0") !== undefined
  );
}

/** Answers a call that {@link isConnectUnary} recognises (Connect protocol, Unary-Response). */
export async function answerConnect(
  request: RpcRequest,
  method: UnaryMethod,
): Promise<RpcResponse> {
  try {
    const timeoutMs = parseConnectTimeout(request.header.get(timeoutHeader) ?? "");
    const octets = await answerUnary(request, timeoutMs, method, (body) => body);
    return response(200, { "content-type": protobuf }, octets);
  } catch (error) {
    const refusal = asConnectError(error);
    const header = { "content-type": json, ...retryAfterOf(refusal) };
    return response(codeToHttpStatus(refusal.code), header, errorToJsonBytes(refusal, undefined));
  }
}

function response(status: number, fields: AnswerFields, octets: Uint8Array): RpcResponse {
  const header = { ...fields, "content-length": String(octets.length) };
  return { status, header, octets: octets as Bytes };
}
