import { CaError, rejectCredential } from "../foundation/errors.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { Pem } from "../pki/encoding/pem.ts";
import { SpiffeId, type TrustDomain } from "../pki/spiffe-id.ts";
import type { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import type { Authenticator, Caller } from "./caller.ts";
import type { CertificateVerifier } from "./certificate-verifier.ts";
import { ForwardingHeaders, forwardedHeader } from "./forwarding-headers.ts";
import type { TokenIssuer } from "./token-issuer.ts";

/** The trust domain, and the verifier of the certificates that gateways forward. */
interface ForwardedTrust {
  readonly trustDomain: TrustDomain;
  readonly verify: CertificateVerifier;
}

/**
 * Authenticates the client of a gateway, as Istio's `XfccAuthenticator` does. Istio trusts the address of the proxy;
 * here the proxy must prove an account that its issuer's table calls a gateway. The header of any other caller is
 * ignored, unless `x-rampart-forwards` says that it must be used: then the call is refused, so that no client gets the
 * identity of its gateway.
 *
 * A gateway may speak only for the namespaces that its issuer may vouch for. It forwards the certificate itself, which
 * must be a credential here too; a name alone is accepted only from a gateway whose table allows that.
 */
export function acceptingForwardedCertificates(
  trust: ForwardedTrust,
  authenticate: Authenticator,
): Authenticator {
  return async (credentials, now) => {
    const { headers } = credentials;
    const header = headers.get(forwardedHeader);
    const isForwarded = headers.get(ForwardingHeaders.forwards) !== null;
    const caller = await authenticate(credentials, now).catch((error: unknown) => {
      throw isForwarded && isOfCredential(error)
        ? rejectCredential("gateway", error.message, error)
        : error;
    });
    const { issuer, account } = caller;
    if (header !== null && issuer?.gatewayNames?.(account)) {
      const client = await clientOf({ ...caller, issuer }, parseForwarded(header), trust, now);
      if (issuer.mayVouchFor(client.account)) return { ...client, gateway: caller };
      throw rejectCredential("namespace", "the gateway's issuer may not vouch for this namespace");
    }
    if (!isForwarded) return caller;
    // Without the refusal, the gateway's client would get the gateway's identity.
    throw rejectCredential("gateway", `no listed gateway, or ${forwardedHeader} was removed`);
  };
}

const isOfCredential = (error: unknown): error is CaError =>
  error instanceof CaError && error.refusal.reason.startsWith("credential-");

async function clientOf(
  { issuer, account, proof }: Caller & { readonly issuer: TokenIssuer },
  { certificate, uri }: ForwardedClient,
  { trustDomain, verify }: ForwardedTrust,
  now: Date,
): Promise<Caller> {
  if (certificate) {
    const client = await verify(certificate, now);
    if (uri === undefined || uri === client.spiffeId) return client;
    throw rejectCredential("subject", "the forwarded URI is not the certificate's");
  }
  if (uri === undefined) throw malformed("has neither a certificate nor a URI");
  if (issuer.mayForwardIdentities?.(account)) {
    return { ...namedClient(uri, proof, trustDomain), provedBy: issuer };
  }
  throw rejectCredential("authority", "the gateway forwards a name without its certificate");
}

/**
 * The caller for a client whose name a gateway forwards without its certificate. The proof is that of the gateway's token,
 * marked as impersonated, so that what the client gets is no credential without the gateway.
 */
function namedClient(uri: string, proof: IdentityProof, trustDomain: TrustDomain): Caller {
  const workload = SpiffeId.parseWorkload(uri);
  if (workload?.trustDomain !== trustDomain) {
    throw rejectCredential("subject", "the forwarded certificate names no workload of this mesh");
  }
  const { account } = workload;
  const spiffeId = SpiffeId.ofWorkload(trustDomain, account);
  return { spiffeId, account, proof: { ...proof, isImpersonated: true } };
}

/** The client of a gateway, as the header describes it. */
interface ForwardedClient {
  /** DER. */
  readonly certificate: Bytes | undefined;
  readonly uri: string | undefined;
}

/** The longest header: the PEM of a leaf with keys of RSA-4096, percent-coded, which triples its length. */
const maximumLength = 12_288;
const pair = /^(By|Hash|Cert|Chain|Subject|URI|DNS)=("(?:[^"\\]|\\.)*"|[^",;=\\]*)$/;

/**
 * Reads the header. Two hops, two certificates or two URIs are refused: nothing says which of them the
 * gateway verified.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
function parseForwarded(header: string): ForwardedClient {
  const found = new Map<string, string>();
  for (const part of header.length > maximumLength ? [""] : header.split(";")) {
    const [, key, value = ""] = pair.exec(part) ?? [];
    if (key === undefined) throw malformed("has an unknown form");
    if ((key === "URI" || key === "Cert") && found.has(key)) throw malformed(`has two of ${key}`);
    found.set(key, value);
  }
  const encoded = found.get("Cert");
  const certificate = encoded === undefined ? undefined : parseCertificateValue(encoded);
  return { certificate, uri: found.get("URI") };
}

const quotedValue = /^"((?:[A-Za-z0-9_.~+/=-]|%[0-9A-Fa-f]{2})*)"$/;

/** Envoy writes PEM, URL-encoded, in quotation marks. */
function parseCertificateValue(value: string): Bytes {
  const [, encoded] = quotedValue.exec(value) ?? [];
  const text = encoded?.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  const der = text === undefined ? undefined : Pem.parse(text, ["CERTIFICATE"]);
  if (!der) throw malformed("holds no certificate");
  return der;
}

function malformed(fault: string): Error {
  return rejectCredential("form", `the forwarded certificate ${fault}`);
}
