import { allocateBytes, type Bytes } from "./encoding/bytes.ts";
import { DerReader, Tag } from "./encoding/der-reader.ts";
import type { DsaEncoding, SignatureScheme } from "./signature-algorithm.ts";

/**
 * A signature out of an X.509 structure, in the encoding that verifies it.
 *
 * @throws DerError when an ECDSA signature is not two integers of at most the curve's size.
 */
export function fromX509Signature(
  signature: Bytes,
  { scalarOctets }: SignatureScheme,
  encoding: DsaEncoding,
): Bytes {
  if (scalarOctets === undefined) return signature;
  const outer = new DerReader(signature);
  const integers = outer.enter(Tag.sequence);
  outer.finish();
  const scalars = allocateBytes(2 * scalarOctets);
  integers.unsignedIntegerInto(scalars, 0, scalarOctets);
  integers.unsignedIntegerInto(scalars, scalarOctets, 2 * scalarOctets);
  integers.finish();
  return encoding === "der" ? signature : scalars;
}
