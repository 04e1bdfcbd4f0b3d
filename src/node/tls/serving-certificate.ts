import { readSmallFile } from "../../program/files/small-file.ts";
import type { CertificateFiles } from "../serve/serve-configuration.ts";

/** The certificate of a TLS server, and its key. */
export interface ServingCertificate {
  /** PEM: the certificate, then its intermediates. */
  readonly chainPem: string;
  readonly keyPem: string;
}

/**
 * The certificate to serve with at `now`: the same object until it changes.
 *
 * Rejects when there is none. A server that has one then continues with it.
 */
export type ServingCertificateSource = (now: Date) => Promise<ServingCertificate>;

const maximumOctets = 256 * 1024;

/** A certificate in files that another program replaces. Each call reads the files anew. */
export function certificateInFiles({
  certificate,
  key,
}: CertificateFiles): ServingCertificateSource {
  let current: ServingCertificate | undefined;
  return async () => {
    const [chainPem, keyPem] = await Promise.all([
      readSmallFile(certificate, maximumOctets),
      readSmallFile(key, maximumOctets),
    ]);
    if (chainPem !== current?.chainPem || keyPem !== current.keyPem) current = { chainPem, keyPem };
    return current;
  };
}
