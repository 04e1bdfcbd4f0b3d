import { X509Certificate } from "node:crypto";
import * as z from "zod/mini";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import { parseBase64 } from "../pki/encoding/base64.ts";
import { toPem } from "../pki/encoding/pem.ts";

const keyForm = z.object({
  use: z.optional(z.string()),
  x5c: z.optional(z.array(z.string()).check(z.length(1))),
});

const form = z.object({
  spiffe_sequence: z.int().check(z.nonnegative()),
  keys: z.array(keyForm).check(z.maxLength(256)),
});

/**
 * Reads a SPIFFE bundle (SPIFFE Trust Domain and Bundle §4) for its X.509 roots.
 *
 * @throws Error for what is none, holds something that is no authority's certificate, or is empty, which
 *   would say that nobody is to be trusted.
 */
export function parsePublishedRoots(json: unknown): NumberedBundle {
  const parsed = form.safeParse(json);
  if (!parsed.success) throw new Error("not a SPIFFE bundle");
  const { spiffe_sequence: sequence, keys } = parsed.data;
  const roots = keys.filter(({ use }) => use === "x509-svid").map(({ x5c }) => derOf(x5c?.[0]));
  if (roots.length === 0) throw new Error("a trust bundle without a root");
  return { sequence, pem: roots.map((root) => toPem("CERTIFICATE", root)).join("") };
}

function derOf(base64: string | undefined): Uint8Array<ArrayBuffer> {
  const der = parseBase64(base64 ?? "");
  if (der && new X509Certificate(der).ca) return der;
  throw new Error("a trust bundle with a certificate that is no authority's");
}
