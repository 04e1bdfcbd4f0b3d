import { Code } from "@connectrpc/connect";
import { codeFromHttpStatus, codeFromString } from "@connectrpc/connect/protocol-connect";
import { frameHeadOctets, trailersFlag } from "./grpc-frames.ts";
import type { RpcResponse } from "./rpc.ts";

/** The status code of an answer, from wherever its protocol puts it; `undefined` for success. */
export function statusCodeOf(response: RpcResponse): Code | undefined {
  const { status, header, trailer, octets } = response;
  const grpcStatus =
    trailer?.["grpc-status"] ?? header["grpc-status"] ?? statusInTrailerFrame(response);
  if (grpcStatus !== undefined) return grpcStatus === "0" ? undefined : knownCode(grpcStatus);
  if (status === 200) return undefined;
  const [, name = ""] = /"code":"(\w+)"/.exec(new TextDecoder().decode(octets)) ?? [];
  return codeFromString(name) ?? codeFromHttpStatus(status);
}

function knownCode(text: string): Code {
  const code = Number(text);
  return Code[code] === undefined ? Code.Unknown : code;
}

/** gRPC-Web puts the trailers into the last frame of the body. */
function statusInTrailerFrame({ header, octets }: RpcResponse): string | undefined {
  if (!header["content-type"]?.startsWith("application/grpc-web")) return undefined;
  const view = new DataView(octets.buffer, octets.byteOffset, octets.length);
  for (let at = 0; at + frameHeadOctets <= octets.length; ) {
    const end = at + frameHeadOctets + view.getUint32(at + 1);
    if (view.getUint8(at) & trailersFlag) {
      const text = new TextDecoder().decode(octets.subarray(at + frameHeadOctets, end));
      return /^grpc-status: ?(\d+)/m.exec(text)?.[1];
    }
    at = end;
  }
  return undefined;
}
