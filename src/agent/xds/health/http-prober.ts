import { request as plaintextRequest } from "node:http";
import { request as tlsRequest } from "node:https";
import type { ProbeMethod } from "../../configuration/readiness-probe.ts";
import type { ProbeAddresses } from "./workload-health.ts";

type HttpMethod = Extract<ProbeMethod, { kind: "http" }>;

/** Asks by HTTP, and reads no more than the head of the answer. Status 200 to 399 is healthy. */
export function probeHttp(
  { scheme, host, port, path, headers }: HttpMethod,
  addresses: ProbeAddresses,
  signal: AbortSignal,
): Promise<string | undefined> {
  const send = scheme === "https" ? tlsRequest : plaintextRequest;
  const { localAddress } = addresses;
  return new Promise((resolve, reject) => {
    const request = send({
      host: host ?? addresses.host,
      port,
      path,
      headers: {
        "user-agent": "istio-probe/1.0",
        ...Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value])),
      },
      signal,
      agent: false,
      ...(localAddress && { localAddress, family: 4 }),
      // A workload's own certificate says nothing to its machine.
      rejectUnauthorized: false,
    });
    request.once("error", reject);
    request.once("response", ({ statusCode = 0 }) => {
      resolve(statusCode >= 200 && statusCode < 400 ? undefined : `HTTP status ${statusCode}`);
      request.destroy();
    });
    request.end();
  });
}
