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
  /** The only identity. Of a node that has many, SDS serves the X509-SVIDs. */
  readonly identity: RefreshingIdentity | undefined;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Pick<Revocation, "crls" | "changes" | "settled">;
}

/**
 * Creates the SPIFFE Workload API: every client that may open the socket is the workload, or serves all of a node's.
 */
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

/** SPIFFE Workload Endpoint §3: browsers and proxies cannot be made to send the header. */
function requireSecurityHeader({ requestHeader }: HandlerContext): void {
  if (requestHeader.get("workload.spiffe.io") === "true") return;
  throw new ConnectError("security header missing from request", Code.InvalidArgument);
}

/**
 * Yields the current state, and the new state after each change, until the call ends. Changes that
 * come while the reader is busy count as one. A state that equals the last one is skipped.
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

function requireAudiences(audiences: readonly string[]): void {
  const isBounded = ({ length }: string): boolean => length > 0 && length <= maximumAudienceLength;
  const { length } = audiences;
  if (length > 0 && length <= maximumAudiences && audiences.every(isBounded)) return;
  const message = `name 1 to ${maximumAudiences} audiences of 1 to ${maximumAudienceLength} characters`;
  throw new ConnectError(message, Code.InvalidArgument);
}

/** Requires the keys of the agent's own trust domain, without which it can neither serve them nor verify a token. */
function requireBundle({ jwtBundles, trustDomain }: JwtProfileView): void {
  if (jwtBundles.keysOf(trustDomain)) return;
  throw new ConnectError("the bundle of the CA has not been read yet", Code.Unavailable);
}

/** The codes of the CA's refusals that a caller can mend. Any other means that it may have no such token. */
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

/** The caller of its own socket may know why: no sentence of a refusal quotes a token. */
function throwInvalid(error: unknown): never {
  if (!(error instanceof CaError)) throw error;
  throw new ConnectError(error.message, Code.InvalidArgument);
}
