/** The name of a trust domain that keeps the rules of SPIFFE-ID §2.1. */
export type TrustDomain = string & { readonly [trustDomainBrand]: true };
declare const trustDomainBrand: unique symbol;

/** A SPIFFE ID that keeps the rules of SPIFFE-ID §2, in its one canonical spelling. */
export type SpiffeId = string & { readonly [spiffeIdBrand]: true };
declare const spiffeIdBrand: unique symbol;

/** A Kubernetes ServiceAccount, with the names as Kubernetes allows them. */
export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

const trustDomainForm = /^[a-z0-9._-]{1,255}$/;
const dnsLabelForm = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** Kubernetes bounds the whole of it, and not its labels. */
const dnsSubdomainForm = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

/**
 * The trust domain of this name, or `undefined`.
 *
 * Upper case is refused, not folded: two spellings of one domain are one too many in a certificate.
 */
export function parseTrustDomain(name: string): TrustDomain | undefined {
  return trustDomainForm.test(name) ? (name as TrustDomain) : undefined;
}

/**
 * Whether the domain is a host name of RFC 5280 §4.2.1.6 as linters read it: two labels or more.
 * SPIFFE allows one label; some X.509 software complains.
 */
export function isFullyQualified(trustDomain: TrustDomain): boolean {
  return trustDomain.includes(".");
}

/** The SPIFFE ID of the trust domain itself, which a signing authority carries (X509-SVID §2). */
export function trustDomainSpiffeId(trustDomain: TrustDomain): SpiffeId {
  return `spiffe://${trustDomain}` as SpiffeId;
}

/** Istio's name for a workload: `spiffe://<trust domain>/ns/<namespace>/sa/<account>`. */
export function workloadSpiffeId(trustDomain: TrustDomain, account: ServiceAccount): SpiffeId {
  return `spiffe://${trustDomain}/ns/${account.namespace}/sa/${account.name}` as SpiffeId;
}

/**
 * Reads `spiffe://<trust domain>/ns/<namespace>/sa/<account>`, in exactly this spelling.
 *
 * Percent-coding, empty or relative segments, ports, queries, upper-case domains and names that
 * Kubernetes would not allow give `undefined` (istiod counts slashes and looks no further).
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

/** The account of these names: a DNS label and a DNS subdomain (RFC 1123), as Kubernetes demands. */
export function parseServiceAccount(namespace: string, name: string): ServiceAccount | undefined {
  const isSubdomain = name.length <= 253 && dnsSubdomainForm.test(name);
  return dnsLabelForm.test(namespace) && isSubdomain ? { namespace, name } : undefined;
}

const workloadForm = /^spiffe:\/\/[a-z0-9._-]{1,255}(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)+$/;

/** Whether the text is any workload SPIFFE ID: scheme, trust domain and a path that is not the root. */
export function isWorkloadSpiffeId(text: string): boolean {
  return text.length <= 2048 && workloadForm.test(text);
}
