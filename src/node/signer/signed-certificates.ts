import { X509Certificate } from "node:crypto";
import { createTtlCache } from "../../foundation/caches.ts";
import type { CertificateSource } from "../gateway/certificate-source.ts";

/** More than the certificates that are issued while the API server is unreachable. */
const maximumRemembered = 1000;

/**
 * Remembers what the CA has signed for a request of Kubernetes, for half of the certificate's life. So if the status
 * could not be written, or its response was lost, the same ask gets the same certificate again, unless it has no
 * `request`.
 */
export function signingOnce(
  clock: () => Date,
): (certificate: CertificateSource) => CertificateSource {
  const signed = createTtlCache<readonly string[]>(maximumRemembered);
  return (certificate) => async (ask) => {
    if (ask.request === undefined) return certificate(ask);
    const key = JSON.stringify(ask);
    const now = clock();
    const known = signed.get(key, now);
    if (known) return known;
    const chain = await certificate(ask);
    const { validFromDate, validToDate } = new X509Certificate(chain[0] ?? "");
    signed.set(key, chain, now, new Date((validFromDate.getTime() + validToDate.getTime()) / 2));
    return chain;
  };
}
