import type { X509Certificate } from "node:crypto";
import { create, equals } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { concatBytes } from "../../foundation/octets.ts";
import type { Subscribers } from "../../foundation/subscribers.ts";
import {
  type SpiffeWorkloadAPI,
  type X509BundlesResponse,
  X509BundlesResponseSchema,
  type X509SVIDResponse,
  X509SVIDResponseSchema,
} from "../../gen/spiffe/workload_pb.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../../pki/spiffe-id.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import type { FederatedBundles } from "../trust/federation.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";

/** The parts of an agent that the API serves. */
interface WorkloadApiView {
  readonly trustDomain: TrustDomain;
  readonly identity: RefreshingIdentity;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Pick<Revocation, "crls" | "changes" | "settled">;
}

/**
 * Creates the SPIFFE Workload API for one workload: every client that may open the socket is that
 * workload. The methods of the JWT profile answer Unimplemented (SPIFFE Workload Endpoint, Appendix A).
 */
export function createWorkloadApi(view: WorkloadApiView): ServiceImpl<typeof SpiffeWorkloadAPI> {
  const { identity, trust, federation, revocation } = view;
  const bundleChanges = [trust.changes, federation.changes, revocation.changes];
  return {
    async *fetchX509SVID(_request, context) {
      requireSecurityHeader(context);
      const changes = [identity.changes, ...bundleChanges];
      const isSame = (a: X509SVIDResponse, b: X509SVIDResponse): boolean =>
        equals(X509SVIDResponseSchema, a, b);
      yield* snapshots(changes, () => svidResponse(view), isSame, context.signal);
    },
    async *fetchX509Bundles(_request, context) {
      requireSecurityHeader(context);
      const isSame = (a: X509BundlesResponse, b: X509BundlesResponse): boolean =>
        equals(X509BundlesResponseSchema, a, b);
      yield* snapshots(bundleChanges, () => bundlesResponse(view), isSame, context.signal);
    },
    fetchJWTSVID: (_request, context) => refuseJwt(context),
    // biome-ignore lint/correctness/useYield: it always throws
    async *fetchJWTBundles(_request, context) {
      refuseJwt(context);
    },
    validateJWTSVID: (_request, context) => refuseJwt(context),
  };
}

/** SPIFFE Workload Endpoint §3: browsers and proxies cannot be made to send the header. */
function requireSecurityHeader({ requestHeader }: HandlerContext): void {
  if (requestHeader.get("workload.spiffe.io") === "true") return;
  throw new ConnectError("security header missing from request", Code.InvalidArgument);
}

function refuseJwt(context: HandlerContext): never {
  requireSecurityHeader(context);
  throw new ConnectError("JWT-SVIDs are not issued here", Code.Unimplemented);
}

async function svidResponse(view: WorkloadApiView): Promise<X509SVIDResponse> {
  const svid = await view.identity.awaitSvid().catch(throwUnavailable);
  const { privateKey, chain, spiffeId } = svid;
  const crl = await crlOf(view);
  return create(X509SVIDResponseSchema, {
    svids: [
      {
        spiffeId,
        x509Svid: joinDer(chain),
        x509SvidKey: privateKey.export({ type: "pkcs8", format: "der" }),
        bundle: joinDer(view.trust.served),
      },
    ],
    crl,
    federatedBundles: federated(view),
  });
}

async function bundlesResponse(view: WorkloadApiView): Promise<X509BundlesResponse> {
  const { identity, trust, trustDomain } = view;
  if (trust.current.length === 0) await identity.awaitSvid().catch(throwUnavailable);
  const own = { [trustDomainSpiffeId(trustDomain)]: joinDer(trust.served) };
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
    ([trustDomain, roots]) => [trustDomainSpiffeId(trustDomain), joinDer(roots)] as const,
  );
  return Object.fromEntries(entries);
}

const joinDer = (certificates: readonly X509Certificate[]): Uint8Array =>
  concatBytes(...certificates.map(({ raw }) => raw));

function throwUnavailable(error: unknown): never {
  const message = `there is no certificate yet: ${messageOf(error)}`;
  throw new ConnectError(message, Code.Unavailable, undefined, undefined, error);
}

/**
 * Yields the current state, and the new state after each change, until the signal aborts. Changes that
 * come while the reader is busy count as one. A state that equals the last one is skipped.
 */
async function* snapshots<T>(
  changes: readonly Subscribers[],
  take: () => Promise<T>,
  isSame: (a: T, b: T) => boolean,
  signal: AbortSignal,
): AsyncGenerator<T> {
  let isChanged = true;
  let wake: () => void = () => undefined;
  const onChange = (): void => {
    isChanged = true;
    wake();
  };
  const unsubscribe = changes.map((change) => change.add(onChange));
  signal.addEventListener("abort", onChange);
  let last: { readonly state: T } | undefined;
  try {
    while (!signal.aborted) {
      if (isChanged) {
        isChanged = false;
        const state = await take();
        if (last === undefined || !isSame(last.state, state)) {
          last = { state };
          yield state;
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
