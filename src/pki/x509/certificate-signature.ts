import type { CryptoProvider } from "../crypto-provider.ts";
import { bytesEqual } from "../encoding/bytes.ts";
import type { Certificate } from "./certificate.ts";
import { fromX509Signature, signatureAlgorithms } from "./signature-algorithm.ts";
import type { SubjectPublicKey } from "./subject-public-key.ts";

/**
 * Whether a certificate is signed with this key, by an algorithm that keys of its kind may use here.
 * SHA-1, MD5, PSS and the algorithms of another kind of key do not count.
 *
 * @throws DerError when an ECDSA signature is not two integers of at most the curve's size.
 */
export async function isSignedWith(
  { toBeSigned, signedBytes, signature }: Certificate,
  { algorithm: keyAlgorithm, spki }: SubjectPublicKey,
  cryptoProvider: CryptoProvider,
): Promise<boolean> {
  const algorithm = signatureAlgorithms[keyAlgorithm].find(({ identifier }) =>
    bytesEqual(identifier, toBeSigned.signatureAlgorithm),
  );
  if (!algorithm) return false;
  const octets = fromX509Signature(signature, algorithm, cryptoProvider.dsaEncoding);
  if (octets.length !== (algorithm.signatureOctets ?? octets.length)) return false;
  return (await cryptoProvider.verify(spki, algorithm, octets, signedBytes)) === true;
}
