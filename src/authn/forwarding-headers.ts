/** The header in which Envoy, and so Istio, forwards the certificate of a proxy's client. */
export const forwardedHeader = "x-forwarded-client-cert";

/** The header with which `rampart gateway` says that its client's certificate counts, and its own token does not. */
export const forwardsHeader = "x-rampart-forwards";

/** The header's value for a certificate, and for its one URI, as Envoy writes them. */
export function forwardedValue(certificatePem: string, uri: string): string {
  return `Cert="${encodeURIComponent(certificatePem)}";URI=${uri}`;
}

/** The headers with which `rampart gateway` forwards a certificate. */
export const forwardingHeaders = (certificatePem: string, uri: string): Record<string, string> => ({
  [forwardsHeader]: "certificate",
  [forwardedHeader]: forwardedValue(certificatePem, uri),
});
