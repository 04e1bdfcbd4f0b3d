/** The header in which Envoy, and so Istio, forwards the certificate of a proxy's client. */
export const forwardedHeader = "x-forwarded-client-cert";

/** The headers by which a gateway forwards a client certificate. */
export const ForwardingHeaders = {
  /** The public sentence of a call that a gateway has forwarded without a good credential of its own. */
  refusal: "gateway authentication failed" as const,

  /** The header with which `rampart gateway` says that its client's certificate is the credential, not its own token. */
  forwards: "x-rampart-forwards" as const,

  /** The headers with which `rampart gateway` forwards a certificate. */
  of: (certificatePem: string, uri: string): Record<string, string> => ({
    [ForwardingHeaders.forwards]: "certificate",
    [forwardedHeader]: forwardedValue(certificatePem, uri),
  }),
};

/** The header's value for a certificate, and for its one URI, as Envoy writes them. */
export function forwardedValue(certificatePem: string, uri: string): string {
  return `Cert="${encodeURIComponent(certificatePem)}";URI=${uri}`;
}
