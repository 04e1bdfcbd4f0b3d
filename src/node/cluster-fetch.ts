import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import type { Fetch } from "../authn/kubernetes-api.ts";
import type { ClusterFetch } from "../config/cluster-access.ts";
import { headersOf } from "./http2-exchange.ts";

/** `fetch`, and beside it a small one for API servers whose certificate is of the cluster's own CA. */
export const clusterFetch: ClusterFetch = (ca) =>
  ca === undefined ? (url, init) => fetch(url, init) : fetchTrusting(ca);

/** What Node's own fetch cannot: trust this CA, and for these requests alone. */
function fetchTrusting(ca: string): Fetch {
  const agent = new Agent({ ca, keepAlive: true, maxSockets: 32, minVersion: "TLSv1.2" });
  return (url, { method = "GET", headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const options = {
        agent,
        method,
        headers: Object.fromEntries(new Headers(headers)),
        ...(signal && { signal }),
      };
      const outgoing = request(url, options, (answer) => {
        const status = answer.statusCode ?? 0;
        const hasBody = status >= 200 && status !== 204 && status !== 304;
        if (!hasBody) answer.resume();
        const stream = Readable.toWeb(answer) as ReadableStream<Uint8Array>;
        const init = { status: Math.max(status, 200), headers: headersOf(answer.rawHeaders) };
        resolve(new Response(hasBody ? stream : null, init));
      });
      outgoing.on("error", reject);
      outgoing.end(typeof body === "string" ? body : undefined);
    });
}
