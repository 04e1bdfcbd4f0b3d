import * as z from "zod/mini";
import { Duration } from "../../foundation/text.ts";
import { KubernetesClient } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import { objectName } from "../../kubernetes/names.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import { issuerGroup } from "./cert-manager-issuers.ts";
import { applyStatus, collectionOf, instant } from "./object-status.ts";
import { requestedPem, requesterOf, requesterSchema } from "./service-certificate-request.ts";

/** A CertificateRequest of cert-manager that has been approved or denied, and awaits its answer. */
export interface CertManagerRequest {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly issuer: { readonly kind: string; readonly name: string };
  /** The CSR, PEM, as the requester wrote it. */
  readonly csrPem: string;
  readonly isCa: boolean;
  readonly usages: readonly string[];
  /** `undefined` if the requester leaves it to the issuer. */
  readonly seconds: number | undefined;
  /** The creator of the request, which is reliable only if cert-manager's webhook writes it. */
  readonly requester: BoundAccount | undefined;
  readonly isDenied: boolean;
  /** Whether its status already says that it waits. */
  readonly isPending: boolean;
}

/** The status of a request. Each but `Pending` is final. */
export type CertManagerStatus =
  | { readonly reason: "Pending"; readonly message: string }
  | { readonly reason: "Denied"; readonly message: string }
  /** The first word of the message is `fault`. */
  | { readonly reason: "Failed"; readonly fault: string; readonly message: string }
  | {
      readonly reason: "Issued";
      /** The certificate chain, PEM, the leaf first, no root. */
      readonly chain: string;
      /** The CA's roots, PEM. */
      readonly roots: string;
    };

const text = z.string().check(z.maxLength(253));
const textOrNone = z._default(text, "");

const requestSchema = z.object({
  metadata: z.object({ namespace: objectName, name: objectName, uid: text }),
  spec: z.object({
    request: z.string(),
    issuerRef: z.object({ kind: textOrNone, name: text }),
    isCA: z._default(z.nullable(z.boolean()), false),
    usages: z._default(z.nullable(z.array(z.string())), null),
    duration: z.nullish(text),
    ...requesterSchema.shape,
  }),
  status: z.prefault(
    z.object({
      conditions: z._default(
        z.nullable(z.array(z.object({ type: z.string(), status: z.string(), reason: textOrNone }))),
        null,
      ),
    }),
    {},
  ),
});

/**
 * Parses a request into [key in its collection, request], or [key, `undefined`] before it is approved or denied, and once
 * it has its answer.
 *
 * @returns `undefined` for any other object.
 */
export function parseCertManagerRequest(
  object: unknown,
): readonly [string, CertManagerRequest | undefined] | undefined {
  const parsed = requestSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { metadata, spec, status } = parsed.data;
  const place = `${metadata.namespace}/${metadata.name}`;
  const conditions = status.conditions ?? [];
  const is = (wanted: string): boolean =>
    conditions.some((each) => each.type === wanted && each.status === "True");
  const ready = conditions.find(({ type }) => type === "Ready")?.reason ?? "";
  const hasAnswer = is("Ready") || is("InvalidRequest") || /^(?:Failed|Denied)$/.test(ready);
  const isDenied = is("Denied");
  if (hasAnswer || !(isDenied || is("Approved"))) return [place, undefined];
  const milliseconds = Duration.parse(spec.duration ?? "");
  const request = {
    ...metadata,
    issuer: spec.issuerRef,
    csrPem: requestedPem(spec.request),
    isCa: spec.isCA === true,
    usages: [...new Set(spec.usages)],
    seconds: milliseconds === undefined ? undefined : Math.floor(milliseconds / 1000),
    requester: requesterOf(spec),
    isDenied,
    isPending: ready === "Pending",
  };
  return [place, request];
}

const requestKind = {
  apiVersion: "cert-manager.io/v1",
  kind: "CertificateRequest",
  plural: "certificaterequests",
};

const group = encodeURIComponent(`spec.issuerRef.group=${issuerGroup}`);

/** Lists the requests to issuers of Rampart, in all namespaces. cert-manager has the selector from 1.20 on. */
export const certManagerListing: Listing = {
  path: `${collectionOf(requestKind)}?fieldSelector=${group}`,
  pageSize: 100,
  maximumRequests: 400,
  objectOctets: KubernetesClient.maximumObjectOctets,
};

/**
 * Writes the status of a request, as cert-manager's own issuers do.
 *
 * @throws FetchError with status 404 or 409 if the request is gone.
 */
export function writeStatus(
  client: KubernetesClient,
  request: CertManagerRequest,
  status: CertManagerStatus,
  now: Date,
): Promise<void> {
  return applyStatus(client, requestKind, request, statusJson(status, instant(now)));
}

function statusJson(status: CertManagerStatus, lastTransitionTime: string): object {
  const condition = (type: string, isTrue: boolean, reason: string, message: string): object => ({
    ...{ type, status: isTrue ? "True" : "False", reason, message, lastTransitionTime },
  });
  if (status.reason === "Issued") {
    const message = "Certificate fetched from issuer successfully";
    return {
      conditions: [condition("Ready", true, status.reason, message)],
      certificate: Buffer.from(status.chain).toString("base64"),
      ca: Buffer.from(status.roots).toString("base64"),
    };
  }
  const ready = condition("Ready", false, status.reason, status.message);
  if (status.reason === "Pending") return { conditions: [ready] };
  const failureTime = lastTransitionTime;
  if (status.reason === "Denied") return { conditions: [ready], failureTime };
  // istio-csr reads only the condition Ready; cert-manager's controller of Certificates reads both.
  const invalid = condition("InvalidRequest", true, status.fault, status.message);
  return { conditions: [ready, invalid], failureTime };
}
