import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import type { RpcRequest, RpcResponse } from "../rpc.ts";
import { answerUnary, asConnectError, type UnaryMethod } from "./unary-call.ts";

const protobuf = "application/proto";
const json = "application/json";

/** Whether this is a unary call of Connect as gateways and agents send it: in protobuf, not compressed. */
export function isConnectUnary({ method, header }: RpcRequest): boolean {
  return (
    method === "POST" &&
    header.get("content-type") === protobuf &&
    (header.get("content-encoding") ?? "identity") === "identity" &&
    timeoutForm.test(header.get("connect-timeout-ms") ?? "0")
  );
}

/** Answers such a call. Never rejects for what a caller does. */
export async function answerConnect(
  request: RpcRequest,
  method: UnaryMethod,
): Promise<RpcResponse> {
  try {
    const octets = await answerUnary(request, timeoutOf(request.header), method, (body) => body);
    return response(200, protobuf, octets);
  } catch (error) {
    const said = asConnectError(error);
    return response(codeToHttpStatus(said.code), json, errorToJsonBytes(said, undefined));
  }
}

const timeoutForm = /^[0-9]{1,10}$/;

function timeoutOf(header: Headers): number | undefined {
  const milliseconds = header.get("connect-timeout-ms");
  return milliseconds === null ? undefined : Number(milliseconds);
}

function response(status: number, contentType: string, octets: Uint8Array): RpcResponse {
  const length = String(octets.length);
  const header = new Headers({ "content-type": contentType, "content-length": length });
  return { status, header, octets: octets as Bytes };
}
