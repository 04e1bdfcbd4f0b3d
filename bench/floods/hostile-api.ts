import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** API servers of tenants that lie, each by the first segment of its path; the parent learns the port. */

const mebibyte = 1024 * 1024;
const values = (octets: number): string =>
  `[${Array(Math.floor(octets / 3))
    .fill("{}")
    .join()}]`;
const text = (octets: number): string => "\u0436".repeat(octets / 2);

const list = (kind: string, items: string, next = ""): string =>
  `{"kind":"${kind}List","metadata":{"resourceVersion":"1","continue":"${next}"},"items":[${items}]}`;

/** Names of 253 characters that no Kubernetes has, on a thousand pages. */
function pods(page: number): string {
  const one = (i: number): string => {
    const name = `${"\u0436".repeat(240)}${page * 50 + i}`;
    const spec = { serviceAccountName: name, nodeName: name };
    return JSON.stringify({ metadata: { namespace: name, name, uid: `${page}-${i}` }, spec });
  };
  const items = Array.from({ length: 50 }, (_, i) => one(i)).join();
  return list("Pod", items, page < 1000 ? `${page + 1}` : "");
}

const roots = (namespace: string): string =>
  `{"metadata":{"name":"istio-ca-root-cert","namespace":"${namespace}","labels":{"istio.io/config":"true"}},"data":{"root-cert.pem":"${text(9.9 * mebibyte)}"}}`;

const denseList = list("Pod", `{"metadata":${values(9.9 * mebibyte)}}`);
const denseEvent = `{"type":"ADDED","object":{"a":${values(9.9 * mebibyte)}}}\n`;
const denseReview = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"a":${values(255 * 1024)}}}`;
const longRoots = roots("a");

/** The answers of a tenant's API server. */
const tenants: Readonly<Record<string, (url: URL) => string>> = {
  dense: () => denseList,
  watch: ({ searchParams }) => (searchParams.has("watch") ? denseEvent : list("Pod", "")),
  names: ({ searchParams }) => pods(Number(searchParams.get("continue") ?? 0)),
  review: () => denseReview,
  push: ({ pathname }) => {
    if (pathname.endsWith("/namespaces")) return list("Namespace", `{"metadata":{"name":"a"}}`);
    return pathname.endsWith("/configmaps") ? list("ConfigMap", longRoots) : longRoots;
  },
};

function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? "", "http://a");
  const [, tenant = ""] = url.pathname.split("/");
  request.resume();
  response.on("error", () => {});
  response.setHeader("content-type", "application/json");
  response.end(tenants[tenant]?.(url));
}

const server = createServer(answer).listen(0, "127.0.0.1", () => {
  process.send?.((server.address() as AddressInfo).port);
});
process.on("disconnect", () => process.exit());
