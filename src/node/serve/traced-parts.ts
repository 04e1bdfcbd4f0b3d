import type { IssuanceLog } from "../../ca/issuance/issuance-log.ts";
import type { CryptoProvider } from "../../pki/crypto-provider.ts";
import type { Spans } from "../../program/telemetry.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";

/** A CA that records how long it verifies the credentials of a call. */
export function tracedCa(ca: CertificateAuthority, spans: Spans | undefined): CertificateAuthority {
  if (!spans) return ca;
  return {
    ...ca,
    authenticate: (credentials, now) =>
      spans.part("verify", () => ca.authenticate(credentials, now)),
  };
}

/** A provider whose keys record how long they sign. */
export function tracedCrypto(provider: CryptoProvider, spans: Spans | undefined): CryptoProvider {
  if (!spans) return provider;
  return {
    ...provider,
    unwrapSigningKey: async (wrapped, algorithm) => {
      const key = await provider.unwrapSigningKey(wrapped, algorithm);
      return { ...key, sign: (bytes) => spans.part("sign", () => key.sign(bytes)) };
    },
  };
}

/** A log that records how long it takes an entry. */
export function tracedLog(
  log: IssuanceLog | undefined,
  spans: Spans | undefined,
): IssuanceLog | undefined {
  if (!log || !spans) return log;
  return {
    ...log,
    record: (issued, recording) => spans.part("log", () => log.record(issued, recording)),
  };
}
