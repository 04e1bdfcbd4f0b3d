import { dnsLabel } from "../foundation/addresses.ts";

/** The name of a trust domain, valid by SPIFFE-ID §2.1. */
export type TrustDomain = string & { readonly [trustDomainBrand]: true };
declare const trustDomainBrand: unique symbol;

/** A SPIFFE ID, valid by SPIFFE-ID §2, in its canonical form. */
export type SpiffeId = string & { readonly [spiffeIdBrand]: true };
declare const spiffeIdBrand: unique symbol;

/** A ServiceAccount of Kubernetes, with names that Kubernetes allows. */
export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

const trustDomainForm = /^[a-z0-9._-]{1,255}$/;
/** Kubernetes bounds the length of the whole subdomain and not of its labels. */
const dnsSubdomainForm = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

/**
 * The trust domain of this name, or `undefined` for an invalid name.
 *
 * Upper case is refused and not folded, so that a trust domain has one spelling in every certificate.
 */
export function parseTrustDomain(name: string): TrustDomain | undefined {
  return trustDomainForm.test(name) ? (name as TrustDomain) : undefined;
}

/**
 * Whether the trust domain has two labels or more. SPIFFE allows one; zlint and other X.509 software
 * demand a fully qualified host in a URI (RFC 5280 §4.2.1.6).
 */
export function isFullyQualified(trustDomain: TrustDomain): boolean {
  return trustDomain.includes(".");
}

/** The SPIFFE ID of the trust domain itself, the URI name of its signing authorities (X509-SVID §2). */
export function trustDomainSpiffeId(trustDomain: TrustDomain): SpiffeId {
  return `spiffe://${trustDomain}` as SpiffeId;
}

/** Istio's SPIFFE ID of a workload: `spiffe://<trust domain>/ns/<namespace>/sa/<account>`. */
export function workloadSpiffeId(trustDomain: TrustDomain, account: ServiceAccount): SpiffeId {
  return `spiffe://${trustDomain}/ns/${account.namespace}/sa/${account.name}` as SpiffeId;
}

/**
 * Reads `spiffe://<trust domain>/ns/<namespace>/sa/<account>` in exactly this form.
 *
 * Percent-encoding, empty or relative segments, ports, queries, upper-case domains and names that
 * Kubernetes refuses give `undefined`. istiod accepts any text between the slashes
 * (`pkg/spiffe/spiffe.go` `ParseIdentity`).
 */
export function parseWorkloadSpiffeId(
  text: string,
): { readonly trustDomain: TrustDomain; readonly account: ServiceAccount } | undefined {
  const [scheme, empty, domain, ns, namespace, sa, name, ...rest] = text.split("/", 8);
  if (scheme !== "spiffe:" || empty !== "" || ns !== "ns" || sa !== "sa" || rest.length > 0) {
    return undefined;
  }
  const trustDomain = parseTrustDomain(domain ?? "");
  const account = parseServiceAccount(namespace ?? "", name ?? "");
  return trustDomain && account ? { trustDomain, account } : undefined;
}

/** The account of these names. Kubernetes demands a DNS label and a DNS subdomain (RFC 1123). */
export function parseServiceAccount(namespace: string, name: string): ServiceAccount | undefined {
  const isSubdomain = name.length <= 253 && dnsSubdomainForm.test(name);
  return dnsLabel.test(namespace) && isSubdomain ? { namespace, name } : undefined;
}

const userForm = /^system:serviceaccount:([^:]+):([^:]+)$/;

/** The account that is a user of an API server under this name. */
export function parseServiceAccountUser(user: string): ServiceAccount | undefined {
  const [, namespace = "", name = ""] = userForm.exec(user) ?? [];
  return parseServiceAccount(namespace, name);
}

/**
 * Whether the names of a certificate are a SPIFFE ID, and DNS names beside it at most.
 *
 * @param names As OpenSSL and Node write them: `URI:spiffe://…, DNS:…`.
 */
export function namesWorkload(names: string | undefined, spiffeId: string): boolean {
  const [first, ...others] = names?.split(", ") ?? [];
  return first === `URI:${spiffeId}` && others.every((name) => /^DNS:[a-z0-9.-]+$/.test(name));
}

const workloadForm = /^spiffe:\/\/[a-z0-9._-]{1,255}(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)+$/;

/**
 * Whether the text is the SPIFFE ID of any workload: a scheme, a trust domain and a path (SPIFFE-ID
 * §2).
 */
export function isWorkloadSpiffeId(text: string): boolean {
  return text.length <= 2048 && workloadForm.test(text);
}
