import { forwardedHeader } from "../../../src/authn/forwarding-headers.ts";
import { issueCertificate } from "../../../src/ca/issuance/issue-certificate.ts";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import type { Refusal } from "../../../src/foundation/refusal.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import type { CertificateAuthority } from "../../../src/transport/certificate-authority.ts";
import { mintAccountToken, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";

/** The stores of one CA: its own, and that of the signer `team-a`. */
export interface SignerStores {
  readonly own: AuthorityStore;
  readonly signer: AuthorityStore;
}

export const begin = new Date("2026-11-21T12:00:00Z");
const issuer = "https://a.test";
const signer = {
  name: "team-a",
  inception_date: "2026-11-21",
  callers: [{ issuer, namespaces: ["*"], accounts: ["*"] }],
};
const random = crypto.getRandomValues(new Uint8Array(32));
const KEK = `k1:${btoa(String.fromCharCode(...random))}`;

/** A CA of one issuer and one named signer on stores that outlive it. @param table Of the issuer. */
export const composeOn = (
  stores: SignerStores,
  cryptoProvider: CryptoProvider,
  table: object,
  values: object,
): Promise<Composition> =>
  Composition.compose(
    Configuration.parse({
      ISSUERS: [{ issuer, ...table }],
      KEK,
      SIGNERS: [signer],
      INCEPTION_DATE: "2026-11-21",
      PROPAGATION_INTERVAL: "0s",
      ...values,
    }),
    {
      store: stores.own,
      signerStore: () => stores.signer,
      fetching: noFetching,
      cryptoProvider,
      log: createEventRecorder(),
      clock: () => begin,
    },
  );

/** The parts of a request that a test changes. */
export interface Asked {
  readonly account?: string;
  /** The leaf of the caller, instead of a token. */
  readonly leaf?: string | undefined;
  readonly hasToken?: boolean;
  readonly claims?: Readonly<Record<string, unknown>>;
  /** The client of the caller, which is a gateway. */
  readonly forwarded?: string;
  readonly now?: Date;
}

/** Asks a CA for a certificate as a workload does. */
export async function ask(
  { authenticate, issuance }: CertificateAuthority,
  { key, csrPem }: { readonly key: TokenKey; readonly csrPem: string },
  asked: Asked,
): Promise<string> {
  const { account = "shop:cart", leaf, hasToken = !leaf, claims, forwarded, now = begin } = asked;
  const headers = new Headers();
  if (hasToken) {
    const token = await mintAccountToken(key, issuer, account, now, claims);
    headers.set("authorization", `Bearer ${token}`);
  }
  if (forwarded !== undefined) headers.set(forwardedHeader, forwarded);
  const clientCertificate = leaf ? Pem.parse(leaf, ["CERTIFICATE"]) : undefined;
  const caller = await authenticate({ headers, clientCertificate }, now);
  const request = { csrPem, requestedSeconds: 0n, impersonatedIdentity: "", certSigner: "" };
  const { signal } = new AbortController();
  const [issued = ""] = await issueCertificate(issuance, caller, request, {
    now,
    signal,
    audit: { event: "create-certificate", outcome: "refused", requestId: "1" },
  });
  return issued;
}

/** The refusal of a request; `undefined` if it gets a certificate. */
export const refusalIn = (answer: Promise<string>): Promise<Refusal | undefined> =>
  answer.then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof CaError) return error.refusal;
      throw error;
    },
  );
