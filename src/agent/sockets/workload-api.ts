import type { X509Certificate } from "node:crypto";
import { create, equals } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { concatBytes } from "../../foundation/octets.ts";
import {
  type SpiffeWorkloadAPI,
  type X509BundlesResponse,
  X509BundlesResponseSchema,
  type X509SVIDResponse,
  X509SVIDResponseSchema,
} from "../../gen/spiffe/workload_pb.ts";
import { trustDomainSpiffeId } from "../../pki/spiffe-id.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import type { FederatedBundles } from "../trust/followers.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import { createJwtProfile, type JwtProfileView } from "./jwt-profile.ts";
import { requireSecurityHeader, snapshots } from "./workload-stream.ts";

/** The parts of an agent that the API serves. */
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
      const isSame = (a: X509SVIDResponse, b: X509SVIDResponse): boolean =>
        equals(X509SVIDResponseSchema, a, b);
      yield* snapshots(changes, () => svidResponse(view, identity), isSame, context);
    },
    async *fetchX509Bundles(_request, context) {
      requireSecurityHeader(context);
      const isSame = (a: X509BundlesResponse, b: X509BundlesResponse): boolean =>
        equals(X509BundlesResponseSchema, a, b);
      yield* snapshots(bundleChanges, () => bundlesResponse(view), isSame, context);
    },
    ...createJwtProfile(view),
  };
}

const servedBySds = "a node has many identities: SDS serves each by its SPIFFE ID";

async function svidResponse(
  view: WorkloadApiView,
  identity: RefreshingIdentity,
): Promise<X509SVIDResponse> {
  const svid = await identity.awaitSvid().catch(throwUnavailable);
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
  if (trust.current.length === 0) {
    await (identity?.awaitSvid() ?? Promise.reject(new Error("there is no root yet"))).catch(
      throwUnavailable,
    );
  }
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
