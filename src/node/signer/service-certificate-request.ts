import * as z from "zod/mini";
import { KubernetesClient } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";
import { applyStatus, collectionOf } from "./object-status.ts";

/**
 * A CertificateSigningRequest (`certificates.k8s.io/v1`) that awaits a decision or its certificate. The
 * API server has established who requests; nobody has verified the request itself.
 */
export interface ServiceCertificateRequest {
  readonly name: string;
  readonly uid: string;
  /** The bearer of the token that created the request; `undefined` for a user that is not a ServiceAccount. */
  readonly requester: BoundAccount | undefined;
  /** The CSR, PEM, as the requester wrote it. */
  readonly csrPem: string;
  readonly usages: readonly string[];
  /** `undefined` if the requester leaves it to the signer. */
  readonly expirationSeconds: number | undefined;
  /** Whether somebody has approved the request. */
  readonly isApproved: boolean;
}

/** A decision on a request. `Approved` and `Denied` come before the certificate, `Failed` in its place. */
export interface SigningDecision {
  readonly type: "Approved" | "Denied" | "Failed";
  /** The reason in CamelCase, as Kubernetes conditions have it. */
  readonly reason: string;
  readonly message: string;
}

/** One more than the longest name of Kubernetes. So a longer name is still invalid when it is cut to this length. */
const longestName = 254;

/** The length in base64 of a CSR of 16 KiB of PEM. */
const longestRequest = 22 * 1024;

/** The creator of a request, as an API server or a webhook records it. */
export const requesterSchema = z.object({
  username: z._default(z.string(), ""),
  extra: z._default(z.nullable(z.record(z.string(), z.array(z.string()))), null),
});

const requestSchema = z.object({
  metadata: z.object({
    /** Kubernetes accepts any segment of a path. */
    name: z.string().check(z.regex(/^(?!\.\.?$)[^/%]{1,1024}$/)),
    uid: z.string().check(z.minLength(1), z.maxLength(64)),
  }),
  spec: z.object({
    request: z.string(),
    ...requesterSchema.shape,
    usages: z._default(
      z.nullable(z.array(z.string().check(z.maxLength(64))).check(z.maxLength(32))),
      null,
    ),
    expirationSeconds: z.nullish(z.number()),
  }),
  status: z.prefault(
    z.object({
      certificate: z._default(z.string(), ""),
      conditions: z._default(z.nullable(z.array(z.object({ type: z.string() }))), null),
    }),
    {},
  ),
});

/**
 * Parses a request into [key in its collection, request], or [key, `undefined`] once it is issued, denied or failed.
 *
 * @returns `undefined` for an object of another kind.
 */
export function parseServiceCertificateRequest(
  object: unknown,
): readonly [string, ServiceCertificateRequest | undefined] | undefined {
  const parsed = requestSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { metadata, spec, status } = parsed.data;
  const conditions = new Set((status.conditions ?? []).map(({ type }) => type));
  const isDone = status.certificate !== "" || conditions.has("Denied") || conditions.has("Failed");
  if (isDone) return [metadata.name, undefined];
  const request = {
    ...metadata,
    requester: requesterOf(spec),
    csrPem: requestedPem(spec.request),
    usages: spec.usages ?? [],
    expirationSeconds: spec.expirationSeconds ?? undefined,
    isApproved: conditions.has("Approved"),
  };
  return [metadata.name, request];
}

/** The decoded PEM of a request; empty if it is no base64, or so long that many would fill the memory. */
export function requestedPem(base64: string): string {
  const octets = Base64.parse(base64.length > longestRequest ? "" : base64);
  // Not strict, because text that is no UTF-8 is refused later as invalid PEM.
  return new TextDecoder().decode(octets);
}

/**
 * The account that created a request, with the pod of its token (KEP-4193); `undefined` for a user that is no
 * ServiceAccount.
 */
export function requesterOf({
  username,
  extra,
}: z.infer<typeof requesterSchema>): BoundAccount | undefined {
  const account = ServiceAccount.parseUser(username);
  const of = (key: string): string | undefined =>
    extra?.[`authentication.kubernetes.io/${key}`]?.[0]?.slice(0, longestName);
  const [podName, podUid, nodeName] = [of("pod-name"), of("pod-uid"), of("node-name")];
  return (
    account && {
      account,
      pod: podName && podUid ? { name: podName, uid: podUid } : undefined,
      node: nodeName ? { name: nodeName } : undefined,
      tokenId: of("credential-id")?.replace(/^JTI=/, ""),
    }
  );
}

const requestKind = {
  apiVersion: "certificates.k8s.io/v1",
  kind: "CertificateSigningRequest",
  plural: "certificatesigningrequests",
};

/** Lists the requests that name a signer. */
export function serviceCertificateListing(signer: string): Listing {
  const selector = encodeURIComponent(`spec.signerName=${signer}`);
  return {
    path: `${collectionOf(requestKind)}?fieldSelector=${selector}`,
    pageSize: 100,
    maximumRequests: 400,
    objectOctets: KubernetesClient.maximumObjectOctets,
  };
}

/**
 * Writes a decision on a request.
 *
 * @throws FetchError with status 404 or 409 if the request is gone.
 */
export function decide(
  client: KubernetesClient,
  request: ServiceCertificateRequest,
  decision: SigningDecision,
): Promise<void> {
  const subresource = decision.type === "Failed" ? "status" : "approval";
  const condition = { ...decision, status: "True" };
  return applyStatus(client, requestKind, request, { conditions: [condition] }, subresource);
}

/**
 * Answers an approved request.
 *
 * @param chainPem The leaf first, no root.
 * @throws FetchError with status 404 or 409 if the request is gone.
 */
export function answerServiceCertificate(
  client: KubernetesClient,
  request: ServiceCertificateRequest,
  chainPem: string,
): Promise<void> {
  const certificate = Base64.format(new TextEncoder().encode(chainPem));
  return applyStatus(client, requestKind, request, { certificate });
}
