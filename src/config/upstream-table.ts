import * as z from "zod/mini";
import { baseUrl } from "../foundation/text/base-url.ts";
import { jsonText } from "../foundation/text/json-text.ts";
import { isCertificateBlocks } from "../pki/encoding/pem.ts";

/** `UPSTREAM_AUTHORITY`, checked: the CA that certifies the authorities. */
export interface UpstreamTable {
  /** Another Rampart, or the PKI engine of HashiCorp Vault and OpenBao. */
  readonly kind: "rampart" | "vault";
  readonly url: string;
  /** The path of Vault's PKI engine. */
  readonly mount: string;
  /** The roots that the certificate of the server must lead to, PEM; the system's without it. */
  readonly ca?: string | undefined;
}

/** The secret with the credential for the CA upstream: a bearer token of Rampart, or a token of Vault. */
export const upstreamCredential = "UPSTREAM_CREDENTIAL";

const table = z.strictObject({
  kind: z.enum(["rampart", "vault"]),
  url: baseUrl,
  mount: z._default(
    z
      .string()
      .check(z.regex(/^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*$/, "must be a path without dots")),
    "pki",
  ),
  ca: z.optional(
    z
      .string()
      .check(z.maxLength(65_536), z.refine(isCertificateBlocks, "must be certificates in PEM")),
  ),
});

/** `UPSTREAM_AUTHORITY`: a table, or the same as JSON in a text. */
export const upstreamTable: z.ZodMiniType<UpstreamTable> = z.pipe(jsonText, table);
