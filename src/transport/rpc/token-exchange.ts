import { Code, ConnectError } from "@connectrpc/connect";
import { CaError } from "../../foundation/errors.ts";
import type { HeaderFields } from "../../foundation/headers.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { retryAfterOf, toConnectError } from "./connect-error.ts";
import { Deadline } from "./deadline.ts";
import {
  audited,
  auditFailure,
  authenticate,
  type Call,
  type CallPath,
  tokenFor,
} from "./internal/issuing-calls.ts";
import { RequestBody } from "./request-body.ts";
import type { RpcRequest, RpcResponse, RpcService } from "./rpc.ts";

const maximumFields = 32;
const ampersand = 0x26;

const grantType = "urn:ietf:params:oauth:grant-type:token-exchange";
const jwtType = "urn:ietf:params:oauth:token-type:jwt";

/** The alphabet of a JWT (RFC 7519 §3). A comma would end the token in the header that {@link bearing} makes of it. */
const jwtPattern = /^[\w.-]{1,16384}$/;

/** The error codes of OAuth (RFC 6749 §5.2, RFC 8693 §2.2.2), and those for errors of the server. */
type OauthError =
  | "invalid_request"
  | "invalid_target"
  | "unsupported_grant_type"
  | "unauthorized_client"
  | "temporarily_unavailable"
  | "server_error";

/** A request that is not answered with a token. */
class ExchangeRefusal extends Error {
  readonly error: OauthError;

  constructor(error: OauthError, description: string) {
    super(description);
    this.error = error;
  }
}

/**
 * Exchanges a caller's own token for a JWT-SVID (RFC 8693 §2), for programs that speak OAuth. Only the subject token
 * authenticates the caller. Client certificates are ignored, and all headers but `clusterid`.
 */
export function createTokenExchange(ca: CertificateAuthority): RpcService {
  const answer: CallPath = (request, call) =>
    exchange(ca, request, call).catch((error) => refusalOf(error, call));
  return audited(ca, answer, "create-token");
}

async function exchange(
  ca: CertificateAuthority,
  request: RpcRequest,
  call: Call,
): Promise<RpcResponse> {
  const { subjectToken, audiences } = readForm(await formOf(request));
  const own: Call = { ...call, peer: {} };
  const issue = async (): Promise<RpcResponse> => {
    await authenticate(ca, own, bearing(subjectToken, request.header));
    const asked = { audiences, requestedSeconds: 0n, spiffeId: "" };
    const { token, expiresAt } = await tokenFor(ca, own, asked, request.signal);
    return toResponse(200, {
      access_token: token,
      issued_token_type: jwtType,
      token_type: "N_A",
      expires_in: Math.floor((expiresAt.getTime() - call.now.getTime()) / 1000),
    });
  };
  return Deadline.within(request.signal, (deadline) => deadline.wait(issue()));
}

async function formOf({ method, header, body, signal }: RpcRequest): Promise<URLSearchParams> {
  const [type = ""] = (header.get("content-type") ?? "").split(";", 1);
  if (method !== "POST" || type.trim().toLowerCase() !== "application/x-www-form-urlencoded") {
    throw new ExchangeRefusal("invalid_request", "POST a form: application/x-www-form-urlencoded");
  }
  const octets = await RequestBody.inTime(body(), signal);
  // A parsed field takes far more memory than its octets.
  if (octets.filter((octet) => octet === ampersand).length >= maximumFields) {
    throw new ExchangeRefusal("invalid_request", "the form has too many fields");
  }
  const fields = new URLSearchParams(new TextDecoder().decode(octets));
  // RFC 6749 §3.2: a parameter without a value is taken as absent.
  return new URLSearchParams([...fields].filter(([, value]) => value !== ""));
}

/** Fields that would narrow or widen the token, and that this CA does not honour. */
const unhonoured = ["resource", "scope", "actor_token", "actor_token_type"];

function readForm(form: URLSearchParams): {
  readonly subjectToken: string;
  readonly audiences: readonly string[];
} {
  const single = (name: string): string | undefined => {
    const [value, ...others] = form.getAll(name);
    if (others.length === 0) return value;
    throw new ExchangeRefusal("invalid_request", `${name} must be there once`);
  };
  const grant = single("grant_type");
  if (grant !== grantType) {
    const error = grant === undefined ? "invalid_request" : "unsupported_grant_type";
    throw new ExchangeRefusal(error, `grant_type must be ${grantType}`);
  }
  for (const name of unhonoured.filter((each) => form.has(each))) {
    throw new ExchangeRefusal("invalid_request", `${name} is not supported`);
  }
  const subjectToken = single("subject_token") ?? "";
  if (single("subject_token_type") !== jwtType || !jwtPattern.test(subjectToken)) {
    throw new ExchangeRefusal("invalid_request", `give a subject_token of the type ${jwtType}`);
  }
  if ((single("requested_token_type") ?? jwtType) !== jwtType) {
    throw new ExchangeRefusal("invalid_request", `requested_token_type must be ${jwtType}`);
  }
  return { subjectToken, audiences: form.getAll("audience") };
}

/** The headers of a call that only this token authenticates. */
const bearing = (token: string, header: HeaderFields): HeaderFields => ({
  get: (name) => {
    if (name === "authorization") return `Bearer ${token}`;
    return name === "clusterid" ? header.get(name) : null;
  },
});

function refusalOf(error: unknown, { audit, now }: Call): RpcResponse {
  if (error instanceof ExchangeRefusal) {
    audit.reason = "token-request-malformed";
    audit.detail = error.message;
    return toResponse(400, { error: error.error, error_description: error.message });
  }
  auditFailure(audit, error);
  const refusal = error instanceof CaError ? toConnectError(error.refusal, now) : error;
  if (!(refusal instanceof ConnectError)) return toResponse(500, { error: "server_error" });
  const isTarget = error instanceof CaError && error.refusal.reason === "audience-denied";
  const [status, name]: Answer = isTarget
    ? [400, "invalid_target"]
    : (answers[refusal.code] ?? [400, "invalid_request"]);
  const body = { error: name, error_description: refusal.rawMessage };
  return toResponse(status, body, retryAfterOf(refusal));
}

type Answer = readonly [status: number, error: OauthError];

const answers: Readonly<Partial<Record<Code, Answer>>> = {
  [Code.PermissionDenied]: [400, "unauthorized_client"],
  [Code.Unimplemented]: [404, "unsupported_grant_type"],
  [Code.ResourceExhausted]: [429, "temporarily_unavailable"],
  [Code.Unavailable]: [503, "temporarily_unavailable"],
  [Code.DeadlineExceeded]: [503, "temporarily_unavailable"],
};

function toResponse(
  status: number,
  body: Readonly<Record<string, unknown>> & { readonly error?: OauthError },
  fields: Readonly<Record<string, string>> = {},
): RpcResponse {
  const octets = new TextEncoder().encode(`${JSON.stringify(body)}\n`) as Bytes;
  const header = {
    ...fields,
    "content-type": "application/json",
    "content-length": String(octets.length),
    "cache-control": "no-store",
  };
  return { status, header, octets };
}
