import { isDeepStrictEqual } from "node:util";
import { logFault } from "../../foundation/fault-log.ts";
import type { RpcService } from "../../transport/rpc/rpc.ts";
import { type RefreshingRoots, refreshRoots } from "../distribute/refreshing-roots.ts";
import {
  followUpstreamBundle,
  lastBundleOf,
  type UpstreamBundle,
} from "../distribute/upstream-bundle.ts";
import type { ServerContext } from "../server.ts";
import { certificateInFiles, type ServingCertificateSource } from "../tls/serving-certificate.ts";
import type { GatewayConfiguration } from "./gateway-configuration.ts";
import { certificateFromUpstream, tokenInFile } from "./gateway-identity.ts";
import { type Forwarding, forwardingRpc } from "./gateway-routes.ts";
import { openUpstream, type Upstream } from "./upstream.ts";

/** The work of a gateway by one configuration. */
export interface GatewayWork {
  readonly configuration: GatewayConfiguration;
  readonly forward: RpcService;
  readonly bundle: UpstreamBundle;
  /** Absent if it delivers none. */
  readonly roots: RefreshingRoots | undefined;
  readonly certificateAt: ServingCertificateSource;
  /** Ends all but the calls under way, the last of which closes the connections to the CA. */
  readonly end: () => Promise<void>;
}

/** @throws OperatorError when roots of the CA or of the API server cannot be read. */
export async function beginGatewayWork(
  configuration: GatewayConfiguration,
  context: ServerContext & Pick<Forwarding, "ended">,
  before?: GatewayWork,
): Promise<GatewayWork> {
  const { log, clock, ended } = context;
  const { trustDomain, rootPlaces } = configuration;
  await using starting = new AsyncDisposableStack();
  const opened = await openUpstream(configuration.upstream, configuration.upstreamRootsFile);
  const upstream = closingWhenIdle(opened);
  starting.defer(upstream.close);
  const credentials = tokenInFile(configuration.tokenFile, configuration.cluster);
  const known = lastBundleOf(before?.bundle, configuration);
  const bundle = await followUpstreamBundle(configuration, context, known);
  starting.defer(bundle.end);
  const isSamePlace = known && isDeepStrictEqual(rootPlaces, before?.configuration.rootPlaces);
  // A list of all namespaces takes its time, and what they had before they still have.
  const reported = isSamePlace ? before?.roots?.report() : undefined;
  const roots = rootPlaces && (await refreshRoots(bundle, rootPlaces, context, reported));
  if (roots) starting.defer(roots.end);
  const forwarding = { upstream, credentials, trustDomain, log, clock, ended };
  const begun = starting.move();
  return {
    ...{ configuration, bundle, roots },
    forward: forwardingRpc(forwarding),
    certificateAt: servingCertificate(configuration, forwarding),
    end: () => begun.disposeAsync(),
  };
}

/** The CA, to which no connection closes before the calls under way have ended. */
function closingWhenIdle({ createCertificate, close }: Upstream): Upstream {
  let calls = 0;
  let isClosing = false;
  return {
    createCertificate: async (...call) => {
      calls++;
      try {
        return await createCertificate(...call);
      } finally {
        calls--;
        if (isClosing && calls === 0) close();
      }
    },
    close: () => {
      isClosing = true;
      if (calls === 0) close();
    },
  };
}

function servingCertificate(
  { certificateFiles }: GatewayConfiguration,
  { upstream, credentials, log }: Forwarding,
): ServingCertificateSource {
  return certificateFiles
    ? certificateInFiles(certificateFiles)
    : certificateFromUpstream(upstream, credentials, (error) =>
        logFault(log, "renewal-failed", error, { what: "serving certificate" }),
      );
}
