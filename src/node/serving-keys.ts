import * as z from "zod/mini";
import { ConfigurationError } from "../foundation/errors.ts";
import { filePath, listenAddress } from "./files/places.ts";
import { limitsTable } from "./limits/limits.ts";
import type { CertificateFiles } from "./tls.ts";

/** The keys of every program that serves native gRPC. */
export const servingKeys = {
  LISTEN: z.prefault(listenAddress, ":15012"),
  MONITORING_LISTEN: z.prefault(listenAddress, ":15014"),
  TLS_CERTIFICATE_FILE: z.optional(filePath),
  TLS_KEY_FILE: z.optional(filePath),
  DIAGNOSTIC_RPCS: z._default(z.enum(["monitoring", "everywhere"]), "monitoring"),
  LIMITS: limitsTable,
};

/** The files of the serving certificate and its key, if any. @throws ConfigurationError for only one of them. */
export function certificateFilesOf({
  TLS_CERTIFICATE_FILE: certificate,
  TLS_KEY_FILE: key,
}: {
  readonly TLS_CERTIFICATE_FILE?: string | undefined;
  readonly TLS_KEY_FILE?: string | undefined;
}): CertificateFiles | undefined {
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  if (certificate === undefined && key === undefined) return undefined;
  throw new ConfigurationError([
    `${certificate === undefined ? "TLS_CERTIFICATE_FILE" : "TLS_KEY_FILE"}: is required beside the other`,
  ]);
}
