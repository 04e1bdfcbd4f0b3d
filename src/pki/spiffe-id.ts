import { DnsName } from "../foundation/addresses.ts";

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

const trustDomainPattern = /^[a-z0-9._-]{1,255}$/;
/** Does not bound the length of labels, because Kubernetes bounds only that of the whole subdomain. */
const dnsSubdomainPattern =
  /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;

/** Parses and checks names of trust domains. */
export const TrustDomain = {
  /**
   * The trust domain of this name, or `undefined` for an invalid name.
   *
   * Upper case is refused and not folded, so that a trust domain has one spelling in every certificate.
   */
  parse(name: string): TrustDomain | undefined {
    return trustDomainPattern.test(name) ? (name as TrustDomain) : undefined;
  },

  /** What a sentence about an invalid SPIFFE ID or trust domain adds if lower-case letters would make it valid; else empty. */
  hint(text: string): string {
    const [, name = text] = /^spiffe:\/\/([^/]*)/.exec(text) ?? [];
    const isCapital = !TrustDomain.parse(name) && TrustDomain.parse(name.toLowerCase());
    return isCapital ? ": a trust domain has lower-case letters" : "";
  },
};

/** Makes and parses SPIFFE IDs. */
export const SpiffeId = {
  /** The SPIFFE ID of the trust domain itself, the URI name of its signing authorities (X509-SVID §2). */
  ofTrustDomain(trustDomain: TrustDomain): SpiffeId {
    return `spiffe://${trustDomain}` as SpiffeId;
  },

  /** Istio's SPIFFE ID of a workload: `spiffe://<trust domain>/ns/<namespace>/sa/<account>`. */
  ofWorkload(trustDomain: TrustDomain, account: ServiceAccount): SpiffeId {
    return `spiffe://${trustDomain}/ns/${account.namespace}/sa/${account.name}` as SpiffeId;
  },

  /**
   * Reads `spiffe://<trust domain>/ns/<namespace>/sa/<account>` in exactly this form.
   *
   * Percent-encoding, empty or relative segments, ports, queries, upper-case domains and names that Kubernetes refuses
   * give `undefined`. istiod accepts any text between the slashes (`pkg/spiffe/spiffe.go` `ParseIdentity`).
   */
  parseWorkload(
    text: string,
  ): { readonly trustDomain: TrustDomain; readonly account: ServiceAccount } | undefined {
    const [scheme, empty, domain, ns, namespace, sa, name, ...rest] = text.split("/", 8);
    if (scheme !== "spiffe:" || empty !== "" || ns !== "ns" || sa !== "sa" || rest.length > 0) {
      return undefined;
    }
    const trustDomain = TrustDomain.parse(domain ?? "");
    const account = ServiceAccount.parse(namespace ?? "", name ?? "");
    return trustDomain && account ? { trustDomain, account } : undefined;
  },

  /** Whether the text is the SPIFFE ID of any workload: a scheme, a trust domain and a path (SPIFFE-ID §2). */
  isWorkload(text: string): boolean {
    return text.length <= 2048 && workloadPattern.test(text);
  },

  /**
   * Whether the first name of a certificate is this SPIFFE ID and every other one is a DNS name.
   * @param names As OpenSSL and Node write them: `URI:spiffe://…, DNS:…`.
   */
  isNamedBy(names: string | undefined, spiffeId: string): boolean {
    const [first, ...others] = names?.split(", ") ?? [];
    return first === `URI:${spiffeId}` && others.every((name) => /^DNS:[a-z0-9.-]+$/.test(name));
  },
};

/** Parses names of Kubernetes accounts. */
export const ServiceAccount = {
  /** The account of these names; `undefined` unless they are a DNS label and a DNS subdomain (RFC 1123), as in Kubernetes. */
  parse(namespace: string, name: string): ServiceAccount | undefined {
    const isSubdomain = name.length <= 253 && dnsSubdomainPattern.test(name);
    return DnsName.label.test(namespace) && isSubdomain ? { namespace, name } : undefined;
  },

  /** The account that `<namespace>/<account>` names; `undefined` for any other text. */
  parseName(text: string): ServiceAccount | undefined {
    const [namespace = "", name = "", ...rest] = text.split("/", 3);
    return rest.length === 0 ? ServiceAccount.parse(namespace, name) : undefined;
  },

  /** The account that is this user of an API server; `undefined` for any other user. */
  parseUser(user: string): ServiceAccount | undefined {
    const [, namespace = "", name = ""] = userPattern.exec(user) ?? [];
    return ServiceAccount.parse(namespace, name);
  },
};

const userPattern = /^system:serviceaccount:([^:]+):([^:]+)$/;

const workloadPattern = /^spiffe:\/\/[a-z0-9._-]{1,255}(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)+$/;
