import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type CertificateRequest, issueCertificate } from "../../ca/issue-certificate.ts";
import { CaError } from "../../foundation/errors.ts";
import {
  type IstioCertificateRequest,
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { auditFailure } from "./audit-failure.ts";
import type { Call } from "./audited-call.ts";
import { toConnectError } from "./connect-error.ts";
import type { UnaryCall } from "./fast-path/unary-call.ts";
import { withTimeout } from "./timeout.ts";

/** The longest that one step of a call may take, whatever deadline the caller sets. */
const maximumStepMilliseconds = 30_000;

/** Authenticates the caller by its headers and its client certificate. */
export async function authenticate(
  ca: CertificateAuthority,
  call: Call,
  headers: Headers,
): Promise<void> {
  const { clientCertificate, now } = call;
  const credentials = { headers, clientCertificate };
  const caller = await ca.authenticate(credentials, now);
  const { spiffeId, issuer, gateway } = caller;
  const vouching = { cluster: issuer?.cluster, issuer: issuer?.name };
  Object.assign(call.audit, { spiffeId, ...vouching, ...(gateway && { gateway }) });
  call.caller = caller;
}

/** Issues the certificate that the message of an authenticated caller asks for. */
export async function createCertificate(
  ca: CertificateAuthority,
  call: Call,
  request: IstioCertificateRequest,
  signal: AbortSignal,
): Promise<{ certChain: string[] }> {
  if (!call.caller)
    throw new CaError({ reason: "credential-missing" }, "the caller is not authenticated");
  const { now, audit, caller } = call;
  const asked = toCertificateRequest(request);
  const certChain = await issueCertificate(ca.issuance, caller, asked, { now, signal, audit });
  delete audit.reason;
  return { certChain };
}

/** Authenticates the caller, then answers its message. Both messages are in binary protobuf. */
export async function createInBinary(
  ca: CertificateAuthority,
  call: Call,
  { header, signal, message }: UnaryCall,
): Promise<Uint8Array> {
  await runStep(call, signal, () => authenticate(ca, call, header));
  const request = parseRequest(await message());
  const answer = await runStep(call, signal, () => createCertificate(ca, call, request, signal));
  const response = create(IstioCertificateResponseSchema, answer);
  return toBinary(IstioCertificateResponseSchema, response);
}

function parseRequest(message: Uint8Array): IstioCertificateRequest {
  try {
    return fromBinary(IstioCertificateRequestSchema, message, { readUnknownFields: false });
  } catch (error) {
    // The parser's own words may quote the message.
    const text = "the message does not parse";
    throw new ConnectError(text, Code.Internal, undefined, undefined, error);
  }
}

function toCertificateRequest(request: IstioCertificateRequest): CertificateRequest {
  const { ImpersonatedIdentity, CertSigner } = request.metadata ?? {};
  return {
    csrPem: request.csr,
    requestedSeconds: request.validityDuration,
    impersonatedIdentity: textOrEmpty(ImpersonatedIdentity),
    certSigner: textOrEmpty(CertSigner),
  };
}

/** Reads a value as protobuf's `GetStringValue` does: any value but a string is empty. */
function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/**
 * Runs one step of a call within its time. The audit event gets the exact reason of a failure, the caller
 * only the public message.
 *
 * @throws ConnectError for a refusal; anything else is a fault.
 */
export async function runStep<T>(
  call: Call,
  signal: AbortSignal,
  work: (call: Call) => Promise<T>,
): Promise<T> {
  try {
    return await withTimeout(work(call), {
      signal,
      milliseconds: maximumStepMilliseconds,
      timeoutError: abandoned,
    });
  } catch (error) {
    auditFailure(call.audit, error);
    throw error instanceof CaError ? toConnectError(error.refusal) : error;
  }
}

function abandoned(): CaError {
  return new CaError({ reason: "request-abandoned" }, "the caller has hung up, or its time is up");
}
