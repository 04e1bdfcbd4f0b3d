import { parseWorkloadSpiffeId, type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import type { Caller } from "../caller.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";

/** Envoy's header, and so Istio's, for the certificate that a proxy's client has shown. */
export const forwardedHeader = "x-forwarded-client-cert";

/**
 * Istio's `XfccAuthenticator`, for gateways by their proved identity instead of by their address: a
 * caller whose issuer calls it a gateway speaks for the client whose certificate it has verified. The
 * header of any other caller is ignored.
 *
 * A gateway may speak only for the namespaces that its issuer may vouch for.
 */
export function acceptingForwardedCertificates(
  trustDomain: TrustDomain,
  authenticate: Authenticator,
): Authenticator {
  async function clientOrCaller(header: string, proof: Promise<Caller>): Promise<Caller> {
    const caller = await proof;
    const { issuer, account } = caller;
    if (!issuer?.gatewayNames?.(account)) return caller;
    return clientOf(caller, issuer, parseForwardedUri(header), trustDomain);
  }
  return (credentials, now) => {
    const header = credentials.headers.get(forwardedHeader);
    const proof = authenticate(credentials, now);
    return header === null ? proof : clientOrCaller(header, proof);
  };
}

function clientOf(
  gateway: Caller,
  issuer: TrustedIssuer,
  uri: string,
  trustDomain: TrustDomain,
): Caller {
  const workload = parseWorkloadSpiffeId(uri);
  if (workload?.trustDomain !== trustDomain) {
    throw rejectCredential("subject", "the forwarded certificate names no workload of this mesh");
  }
  const { account } = workload;
  if (!issuer.mayVouchFor(account)) {
    throw rejectCredential("namespace", "the gateway's issuer may not vouch for this namespace");
  }
  return { spiffeId: workloadSpiffeId(trustDomain, account), account, gateway: gateway.spiffeId };
}

const maximumLength = 4096;
const pair = /^(By|Hash|Cert|Chain|Subject|URI|DNS)=("(?:[^"\\]|\\.)*"|[^",;=\\]*)$/;

/**
 * The one URI of the one hop that a gateway reports. Two hops, or two URIs, and it would have to be
 * decided whom to believe.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
function parseForwardedUri(header: string): string {
  const uris: string[] = [];
  for (const part of header.length > maximumLength ? [""] : header.split(";")) {
    const [, key, value] = pair.exec(part) ?? [];
    if (key === undefined)
      throw rejectCredential("form", "a forwarded certificate in no known form");
    if (key === "URI") uris.push(value ?? "");
  }
  const [uri, ...more] = uris;
  if (uri === undefined || more.length > 0) {
    throw rejectCredential("form", "a forwarded certificate without exactly one URI");
  }
  return uri;
}
