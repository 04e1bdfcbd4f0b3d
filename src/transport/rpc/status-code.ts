import { Code } from "@connectrpc/connect";
import { codeFromHttpStatus, codeFromString } from "@connectrpc/connect/protocol-connect";
import { framesIn, trailersFlag } from "./grpc-frames.ts";
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
  for (const { flags, start, end } of framesIn(octets)) {
    if ((flags & trailersFlag) === 0) continue;
    const text = new TextDecoder().decode(octets.subarray(start, end));
    return /^grpc-status: ?(\d+)/m.exec(text)?.[1];
  }
  return undefined;
}
