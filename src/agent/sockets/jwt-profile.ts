import { create, equals, type JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { CaError, messageOf } from "../../foundation/errors.ts";
import {
  type JWTBundlesResponse,
  JWTBundlesResponseSchema,
  JWTSVIDResponseSchema,
  type SpiffeWorkloadAPI,
  ValidateJWTSVIDResponseSchema,
} from "../../gen/spiffe/workload_pb.ts";
import { validateJwtSvid } from "../../pki/jose/jwt-svid.ts";
import type { SpiffeId, TrustDomain } from "../../pki/spiffe-id.ts";
import type { JwtSvids } from "../identity/jwt-svids.ts";
import { IssuanceError } from "../identity/x509-svid.ts";
import type { JwtBundles } from "../trust/jwt-bundles.ts";
import { requireSecurityHeader, snapshots } from "./workload-stream.ts";

/** The parts of an agent that the JWT profile serves. */
export interface JwtProfileView {
  readonly trustDomain: TrustDomain;
  readonly jwtSvids: JwtSvids;
  readonly jwtBundles: JwtBundles;
  /** The only identity of a workload's own socket. */
  readonly identity: { readonly spiffeId: SpiffeId } | undefined;
  /** The identities of a node. */
  readonly identities: { find(spiffeId: string): { readonly spiffeId: SpiffeId } | undefined };
  readonly clock: () => Date;
}

type JwtProfile = Pick<
  ServiceImpl<typeof SpiffeWorkloadAPI>,
  "fetchJWTSVID" | "fetchJWTBundles" | "validateJWTSVID"
>;

/** The bounds of the CA. */
const maximumAudiences = 8;
const maximumAudienceLength = 255;

/** Creates the JWT profile of the Workload API (SPIFFE Workload API §6). */
export function createJwtProfile(view: JwtProfileView): JwtProfile {
  const { jwtSvids, jwtBundles, clock } = view;
  return {
    fetchJWTSVID: async ({ audience, spiffeId: requested }, context) => {
      requireSecurityHeader(context);
      requireAudiences(audience);
      const spiffeId = identityOf(view, requested);
      const { token: svid } = await jwtSvids.obtain(spiffeId, audience).catch(throwRefusal);
      return create(JWTSVIDResponseSchema, { svids: [{ spiffeId, svid }] });
    },
    async *fetchJWTBundles(_request, context) {
      requireSecurityHeader(context);
      const isSame = (a: JWTBundlesResponse, b: JWTBundlesResponse): boolean =>
        equals(JWTBundlesResponseSchema, a, b);
      yield* snapshots([jwtBundles.changes], () => bundlesResponse(view), isSame, context);
    },
    validateJWTSVID: async ({ audience, svid }, context) => {
      requireSecurityHeader(context);
      requireAudiences([audience]);
      requireBundle(view);
      const keysOf = (domain: TrustDomain) => jwtBundles.keysOf(domain);
      const validated = validateJwtSvid(svid, audience, keysOf, clock());
      const { spiffeId, claims } = await validated.catch(throwInvalid);
      // They were parsed as JSON.
      return create(ValidateJWTSVIDResponseSchema, { spiffeId, claims: claims as JsonObject });
    },
  };
}

/** A workload has one identity. A node proxy names that of the workload for which it asks. */
function identityOf({ identity, identities }: JwtProfileView, requested: string): SpiffeId {
  if (!identity && requested === "") {
    throw new ConnectError("a node has many identities: name a SPIFFE ID", Code.InvalidArgument);
  }
  const found = identity ?? identities.find(requested);
  if (found && (requested === "" || requested === found.spiffeId)) return found.spiffeId;
  throw new ConnectError("no workload here has this SPIFFE ID", Code.PermissionDenied);
}

async function bundlesResponse(view: JwtProfileView): Promise<JWTBundlesResponse> {
  requireBundle(view);
  return create(JWTBundlesResponseSchema, { bundles: view.jwtBundles.documents });
}

function requireAudiences(audiences: readonly string[]): void {
  const isBounded = ({ length }: string): boolean => length > 0 && length <= maximumAudienceLength;
  const { length } = audiences;
  if (length > 0 && length <= maximumAudiences && audiences.every(isBounded)) return;
  const message = `name 1 to ${maximumAudiences} audiences of 1 to ${maximumAudienceLength} characters`;
  throw new ConnectError(message, Code.InvalidArgument);
}

/** Without the keys of the own trust domain the agent can neither serve them nor judge a token. */
function requireBundle({ jwtBundles, trustDomain }: JwtProfileView): void {
  if (jwtBundles.keysOf(trustDomain)) return;
  throw new ConnectError("the bundle of the CA has not been read yet", Code.Unavailable);
}

/** The codes of the CA's refusals that a caller can mend. Any other means that it may have no such token. */
const passedOn: ReadonlySet<Code> = new Set([Code.InvalidArgument, Code.Unimplemented]);

function throwRefusal(error: unknown): never {
  const isRefused = error instanceof IssuanceError && error.fault === "authority-refused";
  const { code = Code.Unknown } =
    isRefused && error.cause instanceof ConnectError ? error.cause : {};
  const refusal = passedOn.has(code) ? code : Code.PermissionDenied;
  throw new ConnectError(
    `there is no token: ${messageOf(error)}`,
    isRefused ? refusal : Code.Unavailable,
  );
}

/** The caller of its own socket may know why: no sentence of a refusal quotes a token. */
function throwInvalid(error: unknown): never {
  if (!(error instanceof CaError)) throw error;
  throw new ConnectError(error.message, Code.InvalidArgument);
}
