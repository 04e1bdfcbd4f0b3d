import * as z from "zod/mini";
import { KubernetesClient, type SendRequest } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import { objectName } from "../../kubernetes/names.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";
import { applyStatus, instant } from "./object-status.ts";

/** The public key of a request, and the proof that the requester has its private key. */
export type RequestedKey =
  /** A PKCS#10 request, DER. Everything but key and signature is empty or unverified. */
  | { readonly pkcs10: Bytes }
  /** SubjectPublicKeyInfo, DER, and a signature over the pod's UID, in base64: Kubernetes before 1.36. */
  | { readonly publicKey: Bytes; readonly signature: string };

/**
 * A PodCertificateRequest (`certificates.k8s.io`) that awaits its answer.
 *
 * The API server has established account, pod and node: its admission plugin NodeRestriction lets a
 * node request only for pods that run on it.
 */
export interface PodCertificateRequest {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly account: ServiceAccount;
  readonly pod: { readonly name: string; readonly uid: string };
  readonly node: string;
  /** The longest life of the certificate, from its notBefore. */
  readonly maximumSeconds: number;
  readonly key: RequestedKey;
  /** Whether the author of the pod has written annotations for the signer. Nobody has verified them. */
  readonly hasAnnotations: boolean;
}

/** The answer to a request, which is final. */
export type PodCertificateStatus =
  | {
      readonly type: "Issued";
      /** PEM, the leaf first, no root. */
      readonly certificateChain: string;
      readonly notBefore: Date;
      readonly notAfter: Date;
      /** When the kubelet is to request the next one. */
      readonly beginRefreshAt: Date;
    }
  | {
      readonly type: "Denied" | "Failed";
      /** A word in CamelCase. `UnsupportedKeyType` and `InvalidUnverifiedUserAnnotations` are Kubernetes' own. */
      readonly reason: string;
      readonly message: string;
    };

/** `v1` from Kubernetes 1.37, `v1beta1` from 1.35. */
export type PodCertificatesVersion = "v1" | "v1beta1";

/** The API server takes any text of this length as the UID of a pod. */
const uid = z.string().check(z.minLength(1), z.maxLength(128));
/** An API server may write `null` for the absent one of the two forms. */
const base64 = z._default(z.nullable(z.string().check(z.maxLength(64 * 1024))), null);
const conditions = z._default(z.nullable(z.array(z.object({ type: z.string() }))), null);

const requestSchema = z.object({
  metadata: z.object({ namespace: objectName, name: objectName, uid }),
  spec: z.object({
    podName: objectName,
    podUID: uid,
    serviceAccountName: z.string(),
    nodeName: objectName,
    maxExpirationSeconds: z._default(z.number(), 86_400),
    stubPKCS10Request: base64,
    pkixPublicKey: base64,
    proofOfPossession: base64,
    unverifiedUserAnnotations: z.nullish(z.record(z.string(), z.string())),
  }),
  status: z.prefault(z.object({ conditions }), {}),
});

const finalTypes: readonly string[] = ["Issued", "Denied", "Failed"];

/**
 * The key of a request in its collection, and the request; no request if it has its answer already. `undefined` for
 * any other object, and for a request with an unreadable account or key, which thus gets no answer.
 */
export function parsePodCertificateRequest(
  object: unknown,
): readonly [string, PodCertificateRequest | undefined] | undefined {
  const parsed = requestSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { metadata, spec, status } = parsed.data;
  const account = ServiceAccount.parse(metadata.namespace, spec.serviceAccountName);
  const key = parseKey(spec);
  if (!account || !key) return undefined;
  const place = `${metadata.namespace}/${metadata.name}`;
  if (status.conditions?.some(({ type }) => finalTypes.includes(type))) return [place, undefined];
  const request = {
    ...metadata,
    account,
    pod: { name: spec.podName, uid: spec.podUID },
    node: spec.nodeName,
    maximumSeconds: spec.maxExpirationSeconds,
    key,
    hasAnnotations: Object.keys(spec.unverifiedUserAnnotations ?? {}).length > 0,
  };
  return [place, request];
}

function parseKey({
  stubPKCS10Request,
  pkixPublicKey,
  proofOfPossession,
}: z.infer<typeof requestSchema>["spec"]): RequestedKey | undefined {
  const octets = Base64.parse(stubPKCS10Request || pkixPublicKey || "");
  if (!octets || octets.length === 0) return undefined;
  return stubPKCS10Request
    ? { pkcs10: octets }
    : { publicKey: octets, signature: proofOfPossession ?? "" };
}

const group = "/apis/certificates.k8s.io";
const podCertificateRequests = { kind: "PodCertificateRequest", plural: "podcertificaterequests" };

/**
 * The version in which an API server serves these requests; `undefined` if it serves none.
 *
 * @throws FetchError
 */
export async function podCertificatesVersion(
  send: SendRequest,
): Promise<PodCertificatesVersion | undefined> {
  for (const version of ["v1", "v1beta1"] as const) {
    const path = `${group}/${version}/podcertificaterequests?limit=1`;
    if ((await send({ path })) !== undefined) return version;
  }
  return undefined;
}

/** The requests for a signer, in all namespaces. */
export function podCertificateListing(version: PodCertificatesVersion, signer: string): Listing {
  const selector = encodeURIComponent(`spec.signerName=${signer}`);
  const path = `${group}/${version}/podcertificaterequests?fieldSelector=${selector}`;
  return {
    path,
    pageSize: 250,
    maximumRequests: 400,
    objectOctets: KubernetesClient.maximumObjectOctets,
  };
}

/**
 * Answers a request. It sends the UID, so that no later request of the same name gets the answer.
 *
 * @throws FetchError with status 404 or 409 if the request is gone, 422 for an answer that is refused.
 */
export async function answerPodCertificate(
  client: KubernetesClient,
  version: PodCertificatesVersion,
  request: PodCertificateRequest,
  status: PodCertificateStatus,
  now: Date,
): Promise<void> {
  const kind = { apiVersion: `certificates.k8s.io/${version}`, ...podCertificateRequests };
  await applyStatus(client, kind, request, statusJson(status, now));
}

function statusJson(status: PodCertificateStatus, now: Date): object {
  const { type } = status;
  const isIssued = type === "Issued";
  const reason = isIssued ? "Issued" : status.reason;
  const message = isIssued ? "" : status.message;
  const condition = { type, status: "True", reason, message, lastTransitionTime: instant(now) };
  if (!isIssued) return { conditions: [condition] };
  return {
    conditions: [condition],
    certificateChain: status.certificateChain,
    notBefore: instant(status.notBefore),
    notAfter: instant(status.notAfter),
    beginRefreshAt: instant(status.beginRefreshAt),
  };
}
