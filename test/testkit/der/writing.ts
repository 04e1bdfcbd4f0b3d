import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { DerBuilder } from "../../../src/pki/encoding/internal/der-builder.ts";

/** Octets of a tag and of the length of less than 16 MiB. */
const maximumHeader = 5;

/** An INTEGER as {@link DerBuilder.prependUnsignedInteger} writes it. */
export function derUnsignedInteger(magnitude: Uint8Array): Bytes {
  const der = new DerBuilder(maximumHeader + 1 + magnitude.length);
  der.prependUnsignedInteger(magnitude);
  return der.finish();
}

/** A BIT STRING without unused bits. */
export function derBitString(octets: Uint8Array): Bytes {
  const der = new DerBuilder(maximumHeader + 1 + octets.length);
  const end = der.position;
  der.prepend(octets);
  der.closeBitString(end);
  return der.finish();
}
