import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { createContextKey, createContextValues, type HandlerContext } from "@connectrpc/connect";
import type { AuditEvent } from "../../ca/issuance/audit-event.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { Deadline } from "./deadline.ts";
import { createFallback } from "./fallback.ts";
import { fastPathFor, type UnaryCall } from "./fast-path.ts";
import {
  audited,
  authenticate,
  type Call,
  type CallPath,
  createCertificate,
  createJwtSvid,
  runStep,
} from "./internal/issuing-calls.ts";
import { parseMessage } from "./internal/message.ts";
import type { HttpAbilities, RpcService } from "./rpc.ts";

/** Makes the answer to the message of an authenticated caller. */
type Issue<I extends DescMessage, O extends DescMessage> = (
  ca: CertificateAuthority,
  call: Call,
  request: MessageShape<I>,
  signal: AbortSignal,
) => Promise<MessageInitShape<O>>;

/**
 * Istio's `IstioCertificateService` over Connect and gRPC-Web and, where the platform has trailers, native gRPC.
 *
 * A call takes one of two paths from its octets to its answer. The fast path (`fast-path.ts`) reads a call in the form
 * that most clients send. The fallback (`fallback.ts`) hands every other call to Connect. Both authenticate the caller
 * before they read the message, and both end in `issuing-calls.ts`.
 */
export const createCertificateService = (
  ca: CertificateAuthority,
  platform: HttpAbilities,
): RpcService =>
  issuingService(ca, platform, IstioCertificateService.method.createCertificate, createCertificate);

/** Rampart's `JwtSvidService`, by the same two paths. */
export const createJwtSvidService = (
  ca: CertificateAuthority,
  platform: HttpAbilities,
): RpcService =>
  issuingService(ca, platform, JwtSvidService.method.createJwtSvid, createJwtSvid, "create-token");

function issuingService<I extends DescMessage, O extends DescMessage>(
  ca: CertificateAuthority,
  platform: HttpAbilities,
  method: DescMethodUnary<I, O>,
  issue: Issue<I, O>,
  event?: AuditEvent["event"],
): RpcService {
  const fallback = issuingFallback(ca, platform, method, issue);
  const answer = async (call: Call, unary: UnaryCall): Promise<Uint8Array> => {
    const { header, signal, deadline, message } = unary;
    await runStep(call, deadline, () => authenticate(ca, call, header));
    const request = parseMessage(method.input, await message());
    const issued = await runStep(call, deadline, () => issue(ca, call, request, signal));
    return toBinary(method.output, create(method.output, issued));
  };
  const path: CallPath = (request, call) => {
    const fastPath = fastPathFor(request, platform);
    return fastPath ? fastPath(request, (unary) => answer(call, unary)) : fallback(request, call);
  };
  return audited(ca, path, event);
}

const callKey = createContextKey<Call | undefined>(undefined);

/** Answers the calls that the fast path does not take, through Connect. */
export function issuingFallback<I extends DescMessage, O extends DescMessage>(
  ca: CertificateAuthority,
  platform: HttpAbilities,
  method: DescMethodUnary<I, O>,
  issue: Issue<I, O>,
): CallPath {
  const answer = createFallback(
    platform,
    method,
    (request, context) => runTimedStep(context, (call) => issue(ca, call, request, context.signal)),
    (context) => runTimedStep(context, (call) => authenticate(ca, call, context.requestHeader)),
  );
  return (request, call) => answer(request, createContextValues().set(callKey, call));
}

async function runTimedStep<T>(
  { signal, values }: HandlerContext,
  work: (call: Call) => Promise<T>,
): Promise<T> {
  const call = values.get(callKey);
  if (!call) throw new Error("a call without its context");
  return Deadline.within(signal, (deadline) => runStep(call, deadline, work));
}
