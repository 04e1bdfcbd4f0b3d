import { createConnectRouter } from "@connectrpc/connect";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { IstioCertificateService } from "../gen/istio/v1/auth/ca_pb.ts";
import type { Bytes } from "../pki/bytes.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import { createCertificateRpc } from "../transport/certificate-rpc.ts";
import { createCertificatePath, createHttpApp, isReady } from "../transport/http-app.ts";
import { chunkedBody } from "../transport/request-body.ts";
import { addHealth } from "./health.ts";
import { addReflection } from "./reflection.ts";
import type { Rpc, Site } from "./site.ts";

/** The CA as it is served to workloads: its RPC, the trust bundle, health. */
export function createCertificateSite(ca: CertificateAuthority, isEnding: () => boolean): Site {
  const certificates = new WeakMap<Request, Bytes>();
  const app = createHttpApp(ca, (request) => certificates.get(request));
  const rpc = createCertificateRpc(ca, { hasTrailers: true });
  const createCertificate: Rpc = (request) =>
    rpc({ ...request, body: (signalOf) => chunkedBody(request.body, signalOf) });
  return {
    rpcs: new Map([[createCertificatePath, createCertificate], ...auxiliaryRpcs(ca, isEnding)]),
    fetch: async (request, { clientCertificate }) => {
      if (clientCertificate) certificates.set(request, clientCertificate);
      return app.fetch(request);
    },
    log: ca.log,
  };
}

/** The CA as it is shown to whoever looks after it. Nobody gets a certificate here. */
export function createMonitoringSite(ca: CertificateAuthority, isEnding: () => boolean): Site {
  const app = createHttpApp(ca);
  return {
    rpcs: new Map(auxiliaryRpcs(ca, isEnding)),
    fetch: async (request) =>
      new URL(request.url).pathname === createCertificatePath
        ? new Response("not found\n", { status: 404 })
        : app.fetch(request),
    log: ca.log,
  };
}

/** No message of these is longer than a name. */
const maximumOctets = 16 * 1024;

function auxiliaryRpcs(ca: CertificateAuthority, isEnding: () => boolean): [string, Rpc][] {
  const router = createConnectRouter({ readMaxBytes: maximumOctets });
  const isServing = async (): Promise<boolean> => !isEnding() && (await isReady(ca));
  addHealth(router, [IstioCertificateService.typeName], isServing);
  addReflection(router, [IstioCertificateService, Health]);
  return router.handlers.map((handler) => [handler.requestPath, handler]);
}
