import * as z from "zod/mini";
import { FetchError } from "../../foundation/fetch.ts";
import { KubernetesClient } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";

/**
 * A CertificateSigningRequest (`certificates.k8s.io/v1`) that awaits a decision or its certificate. The
 * API server has established who requests; nobody has verified the request itself.
 */
export interface ServiceCertificateRequest {
  readonly name: string;
  readonly uid: string;
  /** The bearer of the token that created the request; `undefined` for a user that is not a ServiceAccount. */
  readonly requester: BoundAccount | undefined;
  /** PEM, as the requester wrote it. */
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

/** One more than the longest name of Kubernetes, so that a name which was cut to it is none. */
const longestName = 254;

/** The length in base64 of a CSR of 16 KiB of PEM. */
const longestRequest = 22 * 1024;

const requestSchema = z.object({
  metadata: z.object({
    /** Kubernetes takes any segment of a path. */
    name: z.string().check(z.regex(/^(?!\.\.?$)[^/%]{1,1024}$/)),
    uid: z.string().check(z.minLength(1), z.maxLength(64)),
  }),
  spec: z.object({
    request: z.string(),
    username: z._default(z.string(), ""),
    extra: z._default(z.nullable(z.record(z.string(), z.array(z.string()))), null),
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
  // A longer one is refused as none, and many of them must not fill the memory.
  const octets = Base64.parse(spec.request.length > longestRequest ? "" : spec.request);
  const request = {
    ...metadata,
    requester: requesterOf(spec),
    // A text that is no UTF-8 is no PEM either, and is refused as such.
    csrPem: new TextDecoder().decode(octets),
    usages: spec.usages ?? [],
    expirationSeconds: spec.expirationSeconds ?? undefined,
    isApproved: conditions.has("Approved"),
  };
  return [metadata.name, request];
}

/** The API server writes `extra` from the token of the requester (KEP-4193). */
function requesterOf({
  username,
  extra,
}: z.infer<typeof requestSchema>["spec"]): BoundAccount | undefined {
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

const apiVersion = "certificates.k8s.io/v1";
const collection = `/apis/${apiVersion}/certificatesigningrequests`;

/** How a signer lists the requests that name it. */
export function serviceCertificateListing(signer: string): Listing {
  const selector = encodeURIComponent(`spec.signerName=${signer}`);
  return {
    path: `${collection}?fieldSelector=${selector}`,
    pageSize: 100,
    maximumRequests: 400,
    objectOctets: KubernetesClient.maximumObjectOctets,
  };
}

/**
 * Notes a decision on a request.
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
  return applyStatus(client, request, subresource, { conditions: [condition] });
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
  return applyStatus(client, request, "status", { certificate });
}

/** The UID goes along, so that no later request of the same name gets the answer. */
async function applyStatus(
  { send }: KubernetesClient,
  { name, uid }: ServiceCertificateRequest,
  subresource: "approval" | "status",
  status: object,
): Promise<void> {
  const answer = await send({
    method: "PATCH",
    path: `${collection}/${encodeURIComponent(name)}/${subresource}?fieldManager=rampart-signer&force=true`,
    body: { apiVersion, kind: "CertificateSigningRequest", metadata: { name, uid }, status },
  });
  if (answer === undefined) throw new FetchError("has no such request any more", { status: 404 });
}
