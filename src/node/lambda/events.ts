import * as z from "zod/mini";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";

/** What a CA lacks on this platform, in sentences, which docs/tutorials/lambda.md repeats. */
export const lambdaLimits: readonly string[] = [
  "Lambda hands on no client certificate: a workload renews with its token, or through rampart gateway",
  "Lambda has no trailers: native gRPC takes rampart gateway in front",
  "Lambda runs nothing between two requests: a schedule of EventBridge has to call the function each minute",
  "Lambda holds no answer for a caller that waits: BUNDLE_WAIT is 0s",
  "Lambda keeps no file, and modes protect none: who may read the function reads rampart.toml",
  "Lambda answers 6 MB at most: beyond 60,000 revoked certificates /crl.pem may not fit, and a gateway, an agent or distribute gets no CRL any more",
  "Lambda counts in each instance: CALLER_QUOTA and ISSUER_QUOTA bound what one instance issues",
];

const scheduledSchema = z.object({
  source: z.literal("aws.events"),
  "detail-type": z.literal("Scheduled Event"),
});

/** Whether an event is from a schedule of EventBridge. No sender of a request can give it this form. */
export const isScheduled = (event: unknown): boolean => scheduledSchema.safeParse(event).success;

/** A request of a function URL or of an HTTP API, payload format 2.0. */
const requestSchema = z.object({
  version: z.literal("2.0"),
  rawPath: z.string(),
  rawQueryString: z.string(),
  headers: z.record(z.string(), z.string()),
  requestContext: z.object({
    domainName: z.string(),
    http: z.object({ method: z.string(), sourceIp: z.string() }),
  }),
  body: z.nullish(z.string()),
  isBase64Encoded: z.boolean(),
});

/** The response of a Lambda function to a function URL or API Gateway. */
export interface LambdaAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly isBase64Encoded: boolean;
}

/** The longest IPv6 address in text. */
const maximumAddressLength = 45;

/**
 * Converts an event to a request, with its peer as AWS reports it, and never by headers.
 *
 * @returns `undefined` for a request that no server accepts, such as one with a field that HTTP does not allow.
 * @throws Error for any other event.
 */
export function parseRequest(
  event: unknown,
): { readonly request: Request; readonly peer: Peer } | undefined {
  const parsed = requestSchema.safeParse(event);
  if (!parsed.success) {
    throw new Error("rampart takes scheduled events, and requests in payload format 2.0, alone");
  }
  const { rawPath, rawQueryString, headers, requestContext, body, isBase64Encoded } = parsed.data;
  const { domainName, http } = requestContext;
  const query = rawQueryString === "" ? "" : `?${rawQueryString}`;
  const octets = isBase64Encoded ? Base64.parse(body ?? "") : new TextEncoder().encode(body ?? "");
  const hasBody = http.method !== "GET" && http.method !== "HEAD";
  const url = `https://${domainName}${rawPath}${query}`;
  // An HTTP API passes on a decoded path, but only one spelling of a path is accepted.
  if (!octets || URL.parse(url)?.pathname !== rawPath) return undefined;
  const request = requestOf(url, { method: http.method, headers, body: hasBody ? octets : null });
  return request && { request, peer: { address: http.sourceIp.slice(0, maximumAddressLength) } };
}

function requestOf(...[url, init]: [string, RequestInit]): Request | undefined {
  try {
    return new Request(url, init);
  } catch {
    return undefined;
  }
}

/** Converts a response into Lambda's form, its body in base64. */
export async function toAnswer(response: Response): Promise<LambdaAnswer> {
  const octets = Buffer.from(await response.arrayBuffer());
  return {
    statusCode: response.status,
    headers: Object.fromEntries(response.headers),
    body: octets.toString("base64"),
    isBase64Encoded: true,
  };
}
