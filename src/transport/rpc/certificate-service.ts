import { createContextKey, createContextValues, type HandlerContext } from "@connectrpc/connect";
import { Deadline } from "../../foundation/pause.ts";
import { IstioCertificateService } from "../../gen/istio/v1/auth/ca_pb.ts";
import { JwtSvidService } from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { audited, type Call, type CallPath } from "./audited-call.ts";
import { authenticate, createCertificate, createInBinary, runStep } from "./create-certificate.ts";
import { createJwtSvid, createJwtSvidInBinary } from "./create-jwt-svid.ts";
import { createFallback, type FallbackMethod } from "./fallback.ts";
import { fastPathFor } from "./fast-path.ts";
import type { HttpAbilities, RpcService } from "./rpc.ts";
import type { UnaryCall } from "./unary-call.ts";

/**
 * Istio's `IstioCertificateService` over Connect and gRPC-Web and, where the platform has trailers,
 * native gRPC.
 *
 * A call takes one of two paths from its octets to its answer. The fast path (`fast-path.ts`) reads a call
 * in the form that most clients send. The fallback (`fallback.ts`) hands every other call to Connect. Both
 * authenticate the caller before they read the message, and both end in `create-certificate.ts`.
 */
export function createCertificateService(
  ca: CertificateAuthority,
  platform: HttpAbilities,
): RpcService {
  const fallback = createCertificateFallback(ca, platform);
  return audited(
    ca,
    byEitherPath(platform, fallback, (call, unary) => createInBinary(ca, call, unary)),
  );
}

/** Rampart's `JwtSvidService`, by the same two paths. */
export function createJwtSvidService(
  ca: CertificateAuthority,
  platform: HttpAbilities,
): RpcService {
  const fallback = fallbackOf(ca, platform, (router) =>
    router.service(JwtSvidService, {
      createJwtSvid: (request, context) =>
        runTimedStep(context, (call) => createJwtSvid(ca, call, request, context.signal)),
    }),
  );
  const path = byEitherPath(platform, fallback, (call, unary) =>
    createJwtSvidInBinary(ca, call, unary),
  );
  return audited(ca, path, "create-token");
}

function byEitherPath(
  platform: HttpAbilities,
  fallback: CallPath,
  inBinary: (call: Call, unary: UnaryCall) => Promise<Uint8Array>,
): CallPath {
  return (request, call) => {
    const fastPath = fastPathFor(request, platform);
    return fastPath ? fastPath(request, (unary) => inBinary(call, unary)) : fallback(request, call);
  };
}

const callKey = createContextKey<Call | undefined>(undefined);

/** The path that can answer every call: Connect's own. */
export function createCertificateFallback(
  ca: CertificateAuthority,
  platform: HttpAbilities,
): CallPath {
  return fallbackOf(ca, platform, (router) =>
    router.service(IstioCertificateService, {
      createCertificate: (request, context) =>
        runTimedStep(context, (call) => createCertificate(ca, call, request, context.signal)),
    }),
  );
}

function fallbackOf(
  ca: CertificateAuthority,
  platform: HttpAbilities,
  addTo: FallbackMethod["addTo"],
): CallPath {
  const admit: FallbackMethod["admit"] = (context) =>
    runTimedStep(context, (call) => authenticate(ca, call, context.requestHeader));
  const answer = createFallback({ admit, addTo }, platform);
  return (request, call) => {
    const contextValues = request.contextValues ?? createContextValues();
    return answer({ ...request, contextValues: contextValues.set(callKey, call) });
  };
}

/** The longest that one step of a call may take, whatever deadline the caller sets. */
const maximumStepMilliseconds = 30_000;

async function runTimedStep<T>(
  context: HandlerContext,
  work: (call: Call) => Promise<T>,
): Promise<T> {
  const deadline = new Deadline(context.signal, maximumStepMilliseconds);
  try {
    return await runStep(callOf(context), deadline, work);
  } finally {
    deadline.end();
  }
}

function callOf({ values }: HandlerContext): Call {
  const call = values.get(callKey);
  if (!call) throw new Error("a call without its context");
  return call;
}
