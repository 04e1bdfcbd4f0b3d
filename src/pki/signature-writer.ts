import type { Bytes } from "./encoding/bytes.ts";
import { Tag } from "./encoding/der-reader.ts";
import { DerBuilder } from "./encoding/internal/der-builder.ts";
import type { DsaEncoding, SignatureScheme } from "./signature-algorithm.ts";

/** Prepends a signature as X.509 carries it. */
export function prependX509Signature(
  der: DerBuilder,
  signature: Uint8Array,
  { scalarOctets }: SignatureScheme,
  encoding: DsaEncoding,
): void {
  if (scalarOctets === undefined || encoding === "der") der.prepend(signature);
  else prependScalars(der, signature, scalarOctets);
}

/** The `SEQUENCE { r, s }` of an `r || s`. */
export function toX509Signature(signature: Bytes, scalarOctets: number): Bytes {
  const headers = 16;
  const der = new DerBuilder(signature.length + headers);
  prependScalars(der, signature, scalarOctets);
  return der.finish();
}

function prependScalars(der: DerBuilder, signature: Uint8Array, scalarOctets: number): void {
  const end = der.position;
  der.prependUnsignedInteger(signature, scalarOctets);
  der.prependUnsignedInteger(signature, 0, scalarOctets);
  der.close(Tag.sequence, end);
}
