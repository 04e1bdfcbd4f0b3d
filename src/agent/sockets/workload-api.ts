import type { X509Certificate } from "node:crypto";
import {
  create,
  type DescMessage,
  equals,
  type JsonObject,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { CaError, messageOf } from "../../foundation/errors.ts";
import { concatBytes } from "../../foundation/octets.ts";
import {
  JWTBundlesResponseSchema,
  JWTSVIDResponseSchema,
  type SpiffeWorkloadAPI,
  ValidateJWTSVIDResponseSchema,
  X509BundlesResponseSchema,
  X509SVIDResponseSchema,
} from "../../gen/spiffe/workload_pb.ts";
import { JwtSvid } from "../../pki/jose/jwt-svid.ts";
import { SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import type { JwtSvids } from "../identity/jwt-svids.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import { IssuanceError } from "../identity/x509-svid.ts";
import type { Subscribers } from "../subscribers.ts";
import type { FederatedBundles, JwtBundles } from "../trust/bundles.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import { takePermit } from "./socket-bounds.ts";

interface WorkloadApiView extends JwtProfileView {
  /** The only identity; `undefined` in node mode, where SDS alone serves X509-SVIDs. */
  readonly identity: RefreshingIdentity | undefined;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Pick<Revocation, "crls" | "changes" | "settled">;
}

/** Implements the SPIFFE Workload API. Whoever may open the socket counts as the workload, or as a node's proxy. */
export function createWorkloadApi(view: WorkloadApiView): ServiceImpl<typeof SpiffeWorkloadAPI> {
  const { identity, trust, federation, revocation } = view;
  const bundleChanges = [trust.changes, federation.changes, revocation.changes];
  return {
    async *fetchX509SVID(_request, context) {
      requireSecurityHeader(context);
      if (!identity) throw new ConnectError(servedBySds, Code.PermissionDenied);
      const changes = [identity.changes, ...bundleChanges];
      const take = () => svidResponse(view, identity);
      yield* snapshots(X509SVIDResponseSchema, changes, take, context);
    },
    async *fetchX509Bundles(_request, context) {
      requireSecurityHeader(context);
      const take = () => bundlesResponse(view);
      yield* snapshots(X509BundlesResponseSchema, bundleChanges, take, context);
    },
    ...createJwtProfile(view),
  };
}

const servedBySds = "a node has many identities: SDS serves each by its SPIFFE ID";

async function svidResponse(view: WorkloadApiView, identity: RefreshingIdentity) {
  const { privateKey, chain, spiffeId } = await identity.awaitSvid().catch(throwUnavailable);
  const crl = await crlOf(view);
  const svid = {
    spiffeId,
    x509Svid: joinDer(chain),
    bundle: joinDer(view.trust.served),
    x509SvidKey: privateKey.export({ type: "pkcs8", format: "der" }),
  };
  return create(X509SVIDResponseSchema, { svids: [svid], crl, federatedBundles: federated(view) });
}

async function bundlesResponse(view: WorkloadApiView) {
  const { identity, trust, trustDomain } = view;
  if (trust.current.length === 0) {
    const first = identity?.awaitSvid() ?? Promise.reject(new Error("there is no root yet"));
    await first.catch(throwUnavailable);
  }
  const own = { [SpiffeId.ofTrustDomain(trustDomain)]: joinDer(trust.served) };
  const crl = await crlOf(view);
  return create(X509BundlesResponseSchema, { crl, bundles: { ...federated(view), ...own } });
}

/** SPIFFE Workload API §5.2: each CRL in DER. */
async function crlOf({ revocation }: WorkloadApiView): Promise<Uint8Array[]> {
  await revocation.settled();
  return revocation.crls.map(({ der }) => der);
}

function federated({ federation }: WorkloadApiView): Record<string, Uint8Array> {
  const entries = [...federation.current].map(
    ([trustDomain, roots]) => [SpiffeId.ofTrustDomain(trustDomain), joinDer(roots)] as const,
  );
  return Object.fromEntries(entries);
}

const joinDer = (certificates: readonly X509Certificate[]): Uint8Array =>
  concatBytes(...certificates.map(({ raw }) => raw));

function throwUnavailable(error: unknown): never {
  const message = `there is no certificate yet: ${messageOf(error)}`;
  throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
}

/** Requires the header of SPIFFE Workload Endpoint §3, which an attacker cannot make a browser or proxy send. */
function requireSecurityHeader({ requestHeader }: HandlerContext): void {
  if (requestHeader.get("workload.spiffe.io") === "true") return;
  throw new ConnectError("security header missing from request", Code.InvalidArgument);
}

/**
 * Yields the current state, and the new state after each change, until the call ends. Changes that come while the
 * reader is busy count as one. A state equal to the last one is skipped.
 */
export async function* snapshots<Answer extends DescMessage>(
  schema: Answer,
  changes: readonly Subscribers[],
  take: () => Promise<MessageShape<Answer>>,
  { signal, values }: HandlerContext,
): AsyncGenerator<MessageShape<Answer>> {
  let isChanged = true;
  let wake: () => void = () => undefined;
  const onChange = (): void => {
    isChanged = true;
    wake();
  };
  const unsubscribe = changes.map((change) => change.add(onChange));
  signal.addEventListener("abort", onChange);
  let last: MessageShape<Answer> | undefined;
  try {
    while (!signal.aborted) {
      if (isChanged) {
        isChanged = false;
        const state = await take();
        if (last === undefined || !equals(schema, last, state)) {
          last = state;
          const leave = await values.get(takePermit)();
          yield state;
          leave();
        }
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    signal.removeEventListener("abort", onChange);
    for (const end of unsubscribe) end();
  }
}

/** What the JWT profile of the Workload API reads of the agent. */
export interface JwtProfileView {
  readonly trustDomain: TrustDomain;
  readonly jwtSvids: JwtSvids;
  readonly jwtBundles: JwtBundles;
  /** The identity of a sidecar's workload; `undefined` in node mode. */
  readonly identity: { readonly spiffeId: SpiffeId } | undefined;
  /** The identities of all workloads, for node mode. */
  readonly identities: { find(spiffeId: string): { readonly spiffeId: SpiffeId } | undefined };
  readonly clock: () => Date;
}

type JwtProfile = Pick<
  ServiceImpl<typeof SpiffeWorkloadAPI>,
  "fetchJWTSVID" | "fetchJWTBundles" | "validateJWTSVID"
>;

/** The same bounds as the CA's. */
const maximumAudiences = 8;
const maximumAudienceLength = 255;

/** Implements the JWT profile of the Workload API (SPIFFE Workload API §6). */
export function createJwtProfile(view: JwtProfileView): JwtProfile {
  const { jwtSvids, jwtBundles, clock } = view;
  return {
    fetchJWTSVID: async ({ audience, spiffeId: requested }, context) => {
      requireSecurityHeader(context);
      requireAudiences(audience);
      const spiffeId = identityOf(view, requested);
      const { token: svid } = await jwtSvids.obtain(spiffeId, audience).catch(refusing(audience));
      return create(JWTSVIDResponseSchema, { svids: [{ spiffeId, svid }] });
    },
    async *fetchJWTBundles(_request, context) {
      requireSecurityHeader(context);
      const take = async () => {
        requireBundle(view);
        return create(JWTBundlesResponseSchema, { bundles: jwtBundles.documents });
      };
      yield* snapshots(JWTBundlesResponseSchema, [jwtBundles.changes], take, context);
    },
    validateJWTSVID: async ({ audience, svid }, context) => {
      requireSecurityHeader(context);
      requireAudiences([audience]);
      requireBundle(view);
      const keysOf = (domain: TrustDomain) => jwtBundles.keysOf(domain);
      const validated = JwtSvid.validate(svid, audience, keysOf, clock());
      const { spiffeId, claims } = await validated.catch(throwInvalid);
      // The cast is safe: the claims were parsed from JSON.
      return create(ValidateJWTSVIDResponseSchema, { spiffeId, claims: claims as JsonObject });
    },
  };
}

/** The identity to get a token for: a workload's only one, or the one that a node proxy names. @throws ConnectError */
function identityOf({ identity, identities }: JwtProfileView, requested: string): SpiffeId {
  if (!identity && requested === "") {
    throw new ConnectError("a node has many identities: name a SPIFFE ID", Code.InvalidArgument);
  }
  const found = identity ?? identities.find(requested);
  if (found && (requested === "" || requested === found.spiffeId)) return found.spiffeId;
  throw new ConnectError("no workload here has this SPIFFE ID", Code.PermissionDenied);
}

function requireAudiences(audiences: readonly string[]): void {
  const isBounded = ({ length }: string): boolean => length > 0 && length <= maximumAudienceLength;
  const { length } = audiences;
  if (length > 0 && length <= maximumAudiences && audiences.every(isBounded)) return;
  const message = `name 1 to ${maximumAudiences} audiences of 1 to ${maximumAudienceLength} characters`;
  throw new ConnectError(message, Code.InvalidArgument);
}

/** Throws ConnectError while the keys of the agent's own trust domain are unknown. */
function requireBundle({ jwtBundles, trustDomain }: JwtProfileView): void {
  if (jwtBundles.keysOf(trustDomain)) return;
  throw new ConnectError("the bundle of the CA has not been read yet", Code.Unavailable);
}

/** The codes of the CA's refusals that are passed on, because the caller can correct its request. */
const passedOn: ReadonlySet<Code> = new Set([Code.InvalidArgument, Code.Unimplemented]);

const refusing =
  (audiences: readonly string[]) =>
  (error: unknown): never => {
    const isRefused = error instanceof IssuanceError && error.fault === "authority-refused";
    const { code = Code.Unknown } =
      isRefused && error.cause instanceof ConnectError ? error.cause : {};
    const refusal = passedOn.has(code) ? code : Code.PermissionDenied;
    throw new ConnectError(
      `there is no token for ${audiences.join(", ")}: ${messageOf(error)}`,
      isRefused ? refusal : Code.Unavailable,
    );
  };

/** Rethrows with the reason, which a caller of the agent's socket may see: no message of a refusal quotes a token. */
function throwInvalid(error: unknown): never {
  if (!(error instanceof CaError)) throw error;
  throw new ConnectError(error.message, Code.InvalidArgument);
}
