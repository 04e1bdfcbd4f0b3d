import { parseForeignAuthority } from "../pki/authority/foreign-authority.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";

/**
 * Every door for the certificate of another CA: it is read strictly here, and by the platform's own verifier. One
 * that some verifier cannot read makes a whole trust bundle unreadable for it.
 *
 * @throws DerError
 */
export function requireForeign(
  { cryptoProvider }: { readonly cryptoProvider: CryptoProvider },
  der: Bytes,
): void {
  parseForeignAuthority(der);
  cryptoProvider.requireReadable(der);
}
