import { Code, ConnectError } from "@connectrpc/connect";
import { Caller } from "../../../authn/caller.ts";
import type { AuditEvent } from "../../../ca/issuance/audit-event.ts";
import {
  type CertificateRequest,
  issueCertificate,
} from "../../../ca/issuance/issue-certificate.ts";
import {
  type IssuedToken,
  issueToken,
  type TokenRequest,
} from "../../../ca/issuance/issue-token.ts";
import { CaError, messageOf } from "../../../foundation/errors.ts";
import type { HeaderFields } from "../../../foundation/headers.ts";
import type { Refusal } from "../../../foundation/refusal.ts";
import { RequestId, TraceContext } from "../../../foundation/trace-context.ts";
import type { IstioCertificateRequest } from "../../../gen/istio/v1/auth/ca_pb.ts";
import type { CreateJwtSvidRequest } from "../../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { PodKeyProof } from "../../../pki/x509/pod-key-proof.ts";
import type { CertificateAuthority } from "../../certificate-authority.ts";
import { toConnectError } from "../connect-error.ts";
import type { Deadline } from "../deadline.ts";
import { Peer, type RpcRequest, type RpcResponse, type RpcService } from "../rpc.ts";
import { statusCodeOf } from "../status-code.ts";

/** One call, and its caller once it is authenticated. */
export interface Call {
  readonly now: Date;
  readonly audit: AuditEvent;
  readonly peer: Peer;
  caller?: Caller;
}

/** One way from the octets of a call to its answer. It must not reject. */
export type CallPath = (request: RpcRequest, call: Call) => Promise<RpcResponse>;

/** Makes a service of a path. Every call that the path answers leaves one audit event, also a refused one. */
export function audited(
  { clock, log }: CertificateAuthority,
  path: CallPath,
  event?: AuditEvent["event"],
): RpcService {
  return async (request) => {
    const now = clock();
    const { peer } = request;
    const audit = newAudit(request.header, peer, event);
    const response = await path(request, { now, audit, peer });
    if (audit.reason === "rpc-malformed") audit.detail = refusalOf(response);
    audit.durationMilliseconds = clock().getTime() - now.getTime();
    log.audit(audit);
    return response;
  };
}

/** Creates the audit event of a call. Its initial reason is that of a call which the RPC layer refuses. */
export function newAudit(
  headers: HeaderFields,
  { address }: Peer,
  event: AuditEvent["event"] = "create-certificate",
): AuditEvent {
  const trace = TraceContext.of(headers);
  return {
    event,
    outcome: "refused",
    reason: "rpc-malformed",
    requestId: RequestId.of(headers, trace),
    ...TraceContext.logFields(trace),
    ...(address !== undefined && { peer: address }),
  };
}

/** The refusal of the RPC layer, without its message, which may quote the caller's. */
function refusalOf(response: RpcResponse): string {
  const code = statusCodeOf(response);
  return `refused by the RPC layer: HTTP ${response.status}${code ? `, code ${Code[code]}` : ""}`;
}

const maximumDetailLength = 300;

/** Records why a call failed, which its caller never learns exactly. A ConnectError changes the detail alone. */
export function auditFailure(audit: AuditEvent, error: unknown): void {
  if (error instanceof CaError) {
    audit.outcome = "refused";
    audit.reason = error.refusal.reason;
    const check = checkOf(error.refusal);
    if (check) audit.check = check;
  } else if (!(error instanceof ConnectError)) {
    audit.outcome = "failed";
    audit.reason = "fault";
  }
  audit.detail = messageOf(error).slice(0, maximumDetailLength);
}

function checkOf(refusal: Refusal): string | undefined {
  switch (refusal.reason) {
    case "credential-rejected":
      return refusal.check;
    case "subject-key-unacceptable":
      return refusal.fault;
    case "quota-exceeded":
      return refusal.quota;
    case "denied":
      return refusal.subject;
    case "impersonation-denied":
    case "audience-denied":
    case "policy-denied":
      return refusal.rule;
    default:
      return undefined;
  }
}

/** Authenticates the caller by headers and client certificate, into `call` and its audit event. @throws CaError */
export async function authenticate(
  ca: CertificateAuthority,
  call: Call,
  headers: HeaderFields,
): Promise<void> {
  const { clientCertificate } = call.peer;
  call.caller = await ca.authenticate({ headers, clientCertificate }, call.now);
  auditCaller(call.audit, call.caller, headers);
}

/** An IP address, with a zone or without. */
const addressPattern = /^[0-9A-Za-z.:%]{2,64}$/;

function auditCaller(audit: AuditEvent, caller: Caller, headers: HeaderFields): void {
  const { spiffeId, issuer, gateway, certificate, proof, provedBy, tokenSubject } = caller;
  Object.assign(audit, { spiffeId, cluster: issuer?.cluster, issuer: issuer?.name });
  audit.proof = Caller.proofKindOf(caller);
  if (tokenSubject) audit.tokenSubject = tokenSubject;
  if (certificate) {
    audit.callerSerialNumber = certificate.serialNumber;
    audit.callerAuthority = certificate.authority;
    audit.provedAt = proof.provedAt;
    if (provedBy) audit.provedBy = provedBy.name;
  }
  if (!gateway) return;
  audit.gateway = gateway.spiffeId;
  const forwardedPeer = headers.get(Peer.forwardedHeader) ?? "";
  if (addressPattern.test(forwardedPeer)) audit.forwardedPeer = forwardedPeer;
}

function requireCaller({ caller }: Call): Caller {
  if (caller) return caller;
  throw new CaError({ reason: "credential-missing" }, "the caller is not authenticated");
}

/** Issues the certificate that the message of an authenticated caller asks for. @throws CaError */
export async function createCertificate(
  ca: CertificateAuthority,
  call: Call,
  request: IstioCertificateRequest,
  signal: AbortSignal,
): Promise<{ certChain: string[] }> {
  const { now, audit } = call;
  const caller = requireCaller(call);
  const asked = toCertificateRequest(request);
  const certChain = await issueCertificate(ca.issuance, caller, asked, { now, signal, audit });
  // Set to `undefined`, because deleting it would cost the shape of the object in V8. A log line leaves `undefined`
  // out.
  audit.reason = undefined;
  return { certChain };
}

function toCertificateRequest(request: IstioCertificateRequest): CertificateRequest {
  const { ImpersonatedIdentity, CertSigner, DnsNames, PodUid, ProofOfPossession } =
    request.metadata ?? {};
  return {
    csrPem: request.csr,
    requestedSeconds: request.validityDuration,
    impersonatedIdentity: textOrEmpty(ImpersonatedIdentity),
    certSigner: textOrEmpty(CertSigner),
    dnsNames: Array.isArray(DnsNames) ? DnsNames.map(textOrEmpty) : [],
    podKeyProof: PodKeyProof.parse(textOrEmpty(PodUid), textOrEmpty(ProofOfPossession)),
    metadata: request.metadata,
  };
}

/** Reads a value as protobuf's `GetStringValue` does: any value but a string is empty. */
function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Issues the token that an authenticated caller asks for. @throws CaError */
export async function tokenFor(
  ca: CertificateAuthority,
  call: Call,
  request: TokenRequest,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const { now, audit } = call;
  const caller = requireCaller(call);
  const issued = await issueToken(ca.issuance, caller, request, { now, signal, audit });
  audit.reason = undefined;
  return issued;
}

/** Answers `CreateJwtSvid` of an authenticated caller; `expiresAt` is in Unix seconds. @throws CaError */
export async function createJwtSvid(
  ca: CertificateAuthority,
  call: Call,
  { audiences, lifetimeSeconds: requestedSeconds, spiffeId }: CreateJwtSvidRequest,
  signal: AbortSignal,
): Promise<{ token: string; spiffeId: string; expiresAt: bigint }> {
  const asked = { audiences, requestedSeconds, spiffeId };
  const { expiresAt, ...issued } = await tokenFor(ca, call, asked, signal);
  return { ...issued, expiresAt: BigInt(expiresAt.getTime() / 1000) };
}

/**
 * Runs one step of a call until its deadline. The audit event gets the exact reason of a failure, the caller
 * only the public message.
 *
 * @throws ConnectError for a refusal; anything else is a fault.
 */
export async function runStep<T>(
  call: Call,
  deadline: Deadline,
  work: (call: Call) => Promise<T>,
): Promise<T> {
  try {
    return await deadline.wait(work(call));
  } catch (error) {
    auditFailure(call.audit, error);
    throw error instanceof CaError ? toConnectError(error.refusal, call.now) : error;
  }
}
