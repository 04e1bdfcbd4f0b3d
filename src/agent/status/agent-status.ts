import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { SocketAddress } from "../../foundation/addresses.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import type { FollowerState } from "../../program/bundle/document-follower.ts";
import type { ProxyControl } from "../envoy/envoy-process.ts";
import type { Identities, IdentityStatus } from "../identity/refreshing-identity.ts";
import { hoursUntil } from "../identity/renewal-plan.ts";
import type { WorkloadFeed } from "../node-mode/workload-registry.ts";
import type { CertificateOutput } from "../secrets/certificate-output.ts";
import type { MountedFiles } from "../secrets/mounted-files.ts";
import type { OwnBundle } from "../trust/followers.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import type { XdsProxy } from "../xds/xds-proxy.ts";

export interface ReportedParts {
  readonly identities: Identities;
  readonly mounted: Pick<MountedFiles, "faults">;
  /** The workloads of a node, in node mode. */
  readonly feed: Pick<WorkloadFeed, "fault"> | undefined;
  readonly trust: TrustRoots;
  readonly revocation: Pick<Revocation, "all" | "crls" | "fault">;
  readonly bundle: OwnBundle;
  readonly crlFollower: FollowerState | undefined;
  readonly files: Pick<CertificateOutput, "faults"> | undefined;
  readonly xds: XdsProxy | undefined;
  readonly now: Date;
}

/** Reports the state of an agent. It is ready when nothing that it serves is missing. */
export function reportAgent(parts: ReportedParts) {
  const { identities, mounted, feed, trust, revocation, bundle, crlFollower, files, xds, now } =
    parts;
  const all = identities.all();
  const missing = all.filter((identity) => identity.svid === undefined);
  const reasons = [
    ...missing.map(
      ({ status }) => `${status.spiffeId}: ${status.lastError ?? "no certificate yet"}`,
    ),
    ...mounted.faults(now),
    ...(feed?.fault === undefined ? [] : [feed.fault]),
  ];
  return {
    isReady: reasons.length === 0,
    /**
     * Why the agent is not ready: one sentence for each resource that it cannot serve. A ready agent gives a reason
     * where it follows no roots, or cannot refuse revoked certificates.
     */
    reasons: [
      ...reasons,
      ...[bundle.fault, revocation.fault, ...(files?.faults ?? [])].filter(
        (each) => each !== undefined,
      ),
    ],
    identities: all.map(({ status }) => reportIdentity(status, now)),
    roots: trust.current.map((root) => ({
      subject: root.subject,
      notAfter: root.validToDate.toISOString(),
      sha256: root.fingerprint256,
    })),
    bundle: {
      sequence: trust.sequence,
      confirmedAt: bundle.confirmedAt?.toISOString(),
      lastError: bundle.lastError,
      /** Whether roots, taints and CRLs reach the agent by themselves. */
      isFollowed: bundle.isFollowed,
    },
    revocation: {
      /** Whether verifiers have the CRLs. */
      isUsed: revocation.crls.length > 0,
      lists: revocation.all.map(reportCrl),
      confirmedAt: crlFollower?.confirmedAt?.toISOString(),
      lastError: crlFollower?.lastError,
    },
    xds: xds?.report(),
  };
}

export type AgentStatus = ReturnType<typeof reportAgent>;

function reportIdentity(status: IdentityStatus, now: Date) {
  const { notAfter, nextAttempt } = status;
  return {
    ...status,
    notAfter: notAfter?.toISOString(),
    hoursLeft: hoursUntil(notAfter, now),
    nextAttempt: nextAttempt.toISOString(),
  };
}

function reportCrl({ authorityKeyIdentifier, number, nextUpdate }: Revocation["all"][number]) {
  return {
    /** The key identifier of the authority. */
    authority: authorityKeyIdentifier ? toHex(authorityKeyIdentifier) : "",
    number: number?.toString(),
    nextUpdate: nextUpdate?.toISOString(),
  };
}

interface StatusView {
  readonly status: () => AgentStatus;
  readonly metrics: () => Promise<string>;
  readonly proxy: ProxyControl | undefined;
}

/**
 * Serves probes, metrics and status over HTTP, and pilot-agent's commands to callers of this machine. No answer
 * holds a secret.
 */
export async function serveStatus({ host, port }: SocketAddress, view: StatusView) {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 });
  server.on("request", (request, response) => {
    answer(request, view, response).catch(() => response.destroy());
  });
  server.listen(port, host);
  await once(server, "listening");
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${bound}`,
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

async function answer(
  request: IncomingMessage,
  view: StatusView,
  response: ServerResponse,
): Promise<void> {
  const path = new URL(request.url ?? "/", "http://agent").pathname;
  if (path === "/drain" || path === "/quitquitquit") return command(path, request, view, response);
  const isRead = request.method === "GET" || request.method === "HEAD";
  switch (isRead ? path : "") {
    case "/healthz":
      return end(response, 200, "text/plain", "ok\n");
    case "/readyz":
    case "/healthz/ready": {
      const { isReady, reasons } = await statusWithProxy(view);
      return end(response, isReady ? 200 : 503, "application/json", json({ isReady, reasons }));
    }
    case "/metrics":
      return end(response, 200, metricsType, await view.metrics());
    case "/stats/prometheus": {
      const both = [await view.metrics(), (await view.proxy?.metrics()) ?? ""];
      return end(response, 200, metricsType, both.join(""));
    }
    case "/status":
      return end(response, 200, "application/json", json(await statusWithProxy(view)));
    default:
      return end(response, 404, "text/plain", "not found\n");
  }
}

const metricsType = "text/plain; version=0.0.4";

/** The status of the agent and of the proxy beside it: both must be ready. */
async function statusWithProxy({ status, proxy }: StatusView): Promise<AgentStatus> {
  const own = status();
  const faults = (await proxy?.faults()) ?? [];
  return {
    ...own,
    isReady: own.isReady && faults.length === 0,
    reasons: [...own.reasons, ...faults],
  };
}

const loopback = /^(?:(?:::ffff:)?127\.|::1$)/;

async function command(
  path: "/drain" | "/quitquitquit",
  { method, socket }: IncomingMessage,
  { proxy }: StatusView,
  response: ServerResponse,
): Promise<void> {
  if (!loopback.test(socket.remoteAddress ?? "")) {
    return end(response, 403, "text/plain", "only for callers of this machine\n");
  }
  if (method !== "POST") return end(response, 405, "text/plain", "must be a POST\n");
  if (path === "/quitquitquit") proxy?.quit();
  else await proxy?.drain();
  return end(response, 200, "text/plain", "ok\n");
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`;

function end(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
  response.end(body);
}
