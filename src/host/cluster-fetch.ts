import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import type { ClusterFetch, Fetch } from "../foundation/json-fetch.ts";
import { headersOf } from "./raw-headers.ts";

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
        // What is thrown here would end the process, and some statuses are for no Response.
        const response = responseOf(answer);
        if (response) resolve(response);
        else outgoing.destroy(new Error("a status that is none"));
      });
      outgoing.on("error", reject);
      // A protocol that was switched, for one, ends without an error, and past its time.
      outgoing.on("close", () => reject(new Error("closed without an answer")));
      outgoing.end(typeof body === "string" ? body : undefined);
    });
}

const bodiless: readonly number[] = [204, 205, 304];

/** Nothing for a status that is none. */
function responseOf(answer: IncomingMessage): Response | undefined {
  const { statusCode: status = 0 } = answer;
  if (status < 200 || status > 599) return undefined;
  const init = { status, headers: headersOf(answer.rawHeaders) };
  if (!bodiless.includes(status)) {
    return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, init);
  }
  answer.resume();
  return new Response(null, init);
}
