import { readSmallFile } from "../../host/small-file.ts";
import type { CertificateFiles } from "../serve/serve-configuration.ts";

/** What a TLS server shows of itself. */
export interface ServingCertificate {
  /** PEM: the certificate, then its intermediates. */
  readonly chainPem: string;
  readonly keyPem: string;
}

/**
 * The certificate to serve with at `now`: the very same object until there is another one.
 *
 * Rejects when there is none to be had; whoever has one goes on with it.
 */
export type ServingCertificateSource = (now: Date) => Promise<ServingCertificate>;

const maximumOctets = 256 * 1024;

/** A certificate that somebody else keeps in files; it is read again whenever it is asked for. */
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
