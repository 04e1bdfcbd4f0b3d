import { issueCertificate } from "../../../src/ca/issuance/issue-certificate.ts";
import type { CertificateAsk } from "../../../src/node/gateway/certificate-source.ts";
import { ServiceAccount, SpiffeId, TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { PodKeyProof } from "../../../src/pki/x509/pod-key-proof.ts";
import { wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { tokenIssuerWithoutKeys } from "../callers/token-issuers.ts";
import type { RunningCa } from "./running-ca.ts";

/** What a CA issues to a signer of a cluster that may sign for everything: the chain without the root. */
export async function issueFor(
  { certificateAuthority, now }: Pick<RunningCa, "certificateAuthority" | "now">,
  { csrPem, requestedSeconds, metadata, request }: CertificateAsk,
  issuerName = "https://a.test",
  signer = "rampart-signer",
): Promise<string[]> {
  const trustDomain = TrustDomain.parse("cluster.local");
  const account = ServiceAccount.parse("istio-system", signer);
  if (!trustDomain || !account) throw new Error("a name is malformed");
  const mayDoAll = { maySignFor: () => true, mayName: () => true };
  const issuer = tokenIssuerWithoutKeys(issuerName, {
    clusterSigner: () => mayDoAll,
    intermediateRights: () => ({ trustDomain, pathLength: 0, isConstrained: false }),
  });
  const proof = {
    provedAt: wholeSeconds(now()),
    issuer: IdentityProof.issuerDigest(issuer.name),
    isImpersonated: false,
  };
  const { ImpersonatedIdentity = "", CertSigner = "", DnsNames = [] } = metadata;
  const { PodUid = "", ProofOfPossession = "" } = metadata;
  const chain = await issueCertificate(
    certificateAuthority.issuance,
    { spiffeId: SpiffeId.ofWorkload(trustDomain, account), account, issuer, proof },
    {
      csrPem,
      requestedSeconds: BigInt(requestedSeconds ?? 0),
      impersonatedIdentity: String(ImpersonatedIdentity),
      certSigner: String(CertSigner),
      dnsNames: (DnsNames as unknown[]).map(String),
      podKeyProof: PodKeyProof.parse(String(PodUid), String(ProofOfPossession)),
      metadata: { ...metadata, ...(request !== undefined && { RequestUid: request }) },
    },
    {
      now: now(),
      signal: new AbortController().signal,
      audit: { event: "create-certificate", outcome: "issued", requestId: "test" },
    },
  );
  return chain.slice(0, -1);
}
