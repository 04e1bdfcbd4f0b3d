import type { SigningKey } from "../crypto-provider.ts";
import type { Bytes } from "../encoding/bytes.ts";
import { Tag } from "../encoding/der-reader.ts";
import { DerBuilder } from "../encoding/der-writer.ts";
import { prependX509Signature } from "./signature-algorithm.ts";

/**
 * Signs to-be-signed bytes and puts them together with the signature, as certificates and CRLs are
 * (RFC 5280 §4.1 and §5.1). Callers lint the bytes first.
 */
export async function signStructure(toBeSigned: Bytes, signingKey: SigningKey): Promise<Bytes> {
  const { algorithm, dsaEncoding } = signingKey;
  const signed = await signingKey.sign(toBeSigned);
  const signature = ArrayBuffer.isView(signed) ? signed : new Uint8Array(signed);
  const headers = 32;
  const room = toBeSigned.length + algorithm.identifier.length + signature.length + headers;
  const der = new DerBuilder(room);
  const end = der.position;
  prependX509Signature(der, signature, algorithm, dsaEncoding);
  der.closeBitString(end);
  der.prepend(algorithm.identifier);
  der.prepend(toBeSigned);
  der.close(Tag.sequence, end);
  return der.finish();
}
