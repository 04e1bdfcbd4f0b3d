import type { CryptoProvider } from "../../pki/crypto-provider.ts";
import type { Spans } from "../../program/telemetry.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";

/** Wraps a CA so that spans record how long it verifies a credential, and how long its log takes for an entry. */
export function tracedCa(ca: CertificateAuthority, spans: Spans | undefined): CertificateAuthority {
  if (!spans) return ca;
  const { issuanceLog: log } = ca.issuance;
  const record: NonNullable<typeof log>["record"] = (issued, recording) =>
    spans.part("log", async () => log?.record(issued, recording));
  return {
    ...ca,
    authenticate: (credentials, now) =>
      spans.part("verify", () => ca.authenticate(credentials, now)),
    issuance: { ...ca.issuance, issuanceLog: log && { ...log, record } },
  };
}

/** Wraps a provider so that spans record how long its keys sign; without `spans` it is the same. */
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
