import { create, toBinary } from "@bufbuild/protobuf";
import { type IssuedToken, issueToken, type TokenRequest } from "../../ca/issuance/issue-token.ts";
import { CaError } from "../../foundation/errors.ts";
import {
  type CreateJwtSvidRequest,
  CreateJwtSvidRequestSchema,
  CreateJwtSvidResponseSchema,
} from "../../gen/rampart/jwt/v1/jwt_svid_pb.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { Call } from "./audited-call.ts";
import { authenticate, runStep } from "./create-certificate.ts";
import { parseMessage, type UnaryCall } from "./unary-call.ts";

/** Issues the token that an authenticated caller asks for. */
export async function tokenFor(
  ca: CertificateAuthority,
  { caller, now, audit }: Call,
  request: TokenRequest,
  signal: AbortSignal,
): Promise<IssuedToken> {
  if (!caller)
    throw new CaError({ reason: "credential-missing" }, "the caller is not authenticated");
  const issued = await issueToken(ca.issuance, caller, request, { now, signal, audit });
  audit.reason = undefined;
  return issued;
}

/** `CreateJwtSvid` of an authenticated caller. */
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

/** Authenticates the caller, then answers its message. Both messages are in binary protobuf. */
export async function createJwtSvidInBinary(
  ca: CertificateAuthority,
  call: Call,
  { header, signal, deadline, message }: UnaryCall,
): Promise<Uint8Array> {
  await runStep(call, deadline, () => authenticate(ca, call, header));
  const request = parseMessage(CreateJwtSvidRequestSchema, await message());
  const answer = await runStep(call, deadline, () => createJwtSvid(ca, call, request, signal));
  return toBinary(CreateJwtSvidResponseSchema, create(CreateJwtSvidResponseSchema, answer));
}
