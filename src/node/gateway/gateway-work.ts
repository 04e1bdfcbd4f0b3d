import { generateKeyPair, X509Certificate } from "node:crypto";
import { isDeepStrictEqual, promisify } from "node:util";
import { CertSigner } from "../../ca/issuance/signer-names.ts";
import { OperationLog } from "../../foundation/events.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { isIssuedBy } from "../../program/bundle/mesh-roots.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { parseCertificates } from "../../program/files/pem-file.ts";
import type { Program } from "../../program/program.ts";
import type { RpcService } from "../../transport/rpc/rpc.ts";
import { type RefreshingRoots, refreshRoots } from "../distribute/roots-delivery.ts";
import { followUpstreamTrust, type UpstreamTrust } from "../distribute/upstream-trust.ts";
import type { ServerContext } from "../server.ts";
import {
  CertificateFiles,
  renewalOf,
  type ServingCertificate,
  type ServingCertificateSource,
} from "../tls.ts";
import { type CertificateSource, certificatesFrom } from "./certificate-source.ts";
import type { Forwarding } from "./forwarded-call.ts";
import { forwardingRpcs } from "./forwarding.ts";
import type { GatewayConfiguration } from "./gateway-configuration.ts";
import { createRefreshing } from "./refreshing.ts";
import {
  type OwnAuthorization,
  openUpstream,
  rememberedAuthorization,
  tokenInFile,
  type Upstream,
} from "./upstream.ts";

/** The parts of a running gateway that depend on its configuration. */
export interface GatewayWork {
  readonly configuration: GatewayConfiguration;
  readonly forwarded: ReadonlyMap<string, RpcService>;
  readonly trust: UpstreamTrust;
  /** The delivery of roots; absent if the gateway delivers none. */
  readonly roots: RefreshingRoots | undefined;
  readonly certificateAt: ServingCertificateSource;
  readonly ownAuthorization: OwnAuthorization;
  /** Ends everything but calls under way, the last of which closes the connections to the CA. */
  readonly end: () => Promise<void>;
}

/**
 * Starts what a gateway does behind its ports: the roots that it follows, the connection to the CA, the delivery of
 * roots, the forwarding of calls, and its serving certificate. It ends what it has started when a later part fails.
 *
 * @param before The parts for the former configuration. Their roots are taken over if CA and places are the same.
 * @throws OperatorError if the roots of the CA or of the API server cannot be read.
 */
export async function beginGatewayWork(
  configuration: GatewayConfiguration,
  context: Program<ServerContext> & Pick<Forwarding, "ended" | "slowCalls">,
  before?: GatewayWork,
): Promise<GatewayWork> {
  const { log, clock, ended, slowCalls } = context;
  const { trustDomain, rootPlaces } = configuration;
  await using starting = new AsyncDisposableStack();
  const trust = await followUpstreamTrust(configuration, context, before?.trust);
  starting.defer(trust.end);
  const { serverRoots } = trust.published;
  const upstream = closingWhenIdle(openUpstream(configuration.upstream, () => serverRoots.pem));
  starting.defer(upstream.close);
  const credentials = tokenInFile(configuration.tokenFile, configuration.cluster, clock);
  const isSameCa = before?.configuration.upstream === configuration.upstream;
  const isSamePlace = isSameCa && isDeepStrictEqual(rootPlaces, before?.configuration.rootPlaces);
  // Listing all namespaces takes long. Until then the former report counts, because they still have what it says.
  const reported = isSamePlace ? before?.roots?.report() : undefined;
  const roots = rootPlaces && (await refreshRoots(trust, rootPlaces, context, reported));
  if (roots) starting.defer(roots.end);
  const ownAuthorization = rememberedAuthorization(credentials, clock);
  const own = { credentials, ownAuthorization };
  const forwarding = { upstream, slowCalls, ...own, trustDomain, log, clock, ended };
  const begun = starting.move();
  return {
    configuration,
    trust,
    roots,
    ownAuthorization,
    forwarded: forwardingRpcs(forwarding),
    certificateAt: servingCertificate(configuration, forwarding, trust, context.life.ending),
    end: () => begun.disposeAsync(),
  };
}

/** Wraps a client of the CA so that `close` takes effect only after the calls under way have ended. */
function closingWhenIdle(upstream: Upstream): Upstream {
  const { close } = upstream;
  let calls = 0;
  let isClosing = false;
  const counted =
    <Call extends readonly unknown[], Answer>(send: (...call: Call) => Promise<Answer>) =>
    async (...call: Call): Promise<Answer> => {
      calls++;
      try {
        return await send(...call);
      } finally {
        calls--;
        if (isClosing && calls === 0) close();
      }
    };
  return {
    createCertificate: counted(upstream.createCertificate),
    createJwtSvid: counted(upstream.createJwtSvid),
    exchangeToken: counted(upstream.exchangeToken),
    close: () => {
      isClosing = true;
      if (calls === 0) close();
    },
  };
}

/** The wait before another fetch if a certificate's root is not in the bundle: one isolate may learn of a taint late. */
const refusedSeconds = 5;

function servingCertificate(
  { certificateFiles }: GatewayConfiguration,
  { upstream, credentials, log }: Forwarding,
  { published }: UpstreamTrust,
  ending: AbortSignal,
): ServingCertificateSource {
  if (certificateFiles) return CertificateFiles.read(certificateFiles);
  const certificate = certificatesFrom(upstream, credentials, ending);
  return createRefreshing({
    fetch: () => requestCertificate(certificate),
    // A certificate is due before half of its life is over. If its root has left the bundle, callers refuse it: due soon.
    dueAt: (current, fetchedAt) =>
      isBelowRoots(current, published, fetchedAt)
        ? renewalOf(new X509Certificate(current.chainPem).validToDate, fetchedAt)
        : addSeconds(fetchedAt, refusedSeconds),
    failed: (error) =>
      OperationLog.logFault(log, "renewal-failed", error, { what: "serving certificate" }),
  });
}

/** Whether a certificate of the CA leads to a root of its bundle; also `true` while no bundle is known. */
export function isBelowRoots(
  { chainPem }: ServingCertificate,
  published: UpstreamTrust["published"],
  now: Date,
): boolean {
  const roots = parseCertificates(published.current()?.pem ?? "");
  return roots.length === 0 || isIssuedBy(parseCertificates(chainPem), roots, now);
}

const generate = promisify(generateKeyPair);

/** Requests a serving certificate from the CA, for a new key. The CA's table decides its DNS names. */
async function requestCertificate(certificate: CertificateSource): Promise<ServingCertificate> {
  const key = await generate("ec", { namedCurve: "P-256" });
  const csrPem = await createCertificateRequest(key, undefined);
  const chain = await certificate({ csrPem, metadata: { CertSigner: CertSigner.serving } });
  const keyPem = key.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { chainPem: chain.join(""), keyPem };
}
