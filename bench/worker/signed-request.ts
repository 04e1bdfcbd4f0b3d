import { DerReader, Tag } from "../../src/pki/encoding/der-reader.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { type DsaEncoding, signatureAlgorithms } from "../../src/pki/signature-algorithm.ts";
import { fromX509Signature } from "../../src/pki/signature-reader.ts";

/** The parts of a CSR that the crypto floor needs. */
export interface SignedRequest {
  readonly signedBytes: Uint8Array<ArrayBuffer>;
  readonly signature: Uint8Array<ArrayBuffer>;
  readonly spki: Uint8Array<ArrayBuffer>;
}

/** Parses the CSR of a P-256 key; the signature gets the encoding that the floor verifies. */
export function readSignedRequest(pem: string, encoding: DsaEncoding): SignedRequest {
  const der = Pem.parse(pem, ["CERTIFICATE REQUEST"]);
  const [algorithm] = signatureAlgorithms["EC-P256"];
  if (!der || !algorithm) throw new Error("the benchmark needs a CSR of a P-256 key");
  const fields = new DerReader(der).enter(Tag.sequence);
  const signedBytes = fields.element(Tag.sequence);
  fields.element(Tag.sequence);
  const signature = fromX509Signature(fields.bitStringOctets(), algorithm, encoding);
  const info = new DerReader(signedBytes).enter(Tag.sequence);
  info.element(Tag.integer);
  info.element(Tag.sequence);
  return { signedBytes, signature, spki: info.element(Tag.sequence) };
}
