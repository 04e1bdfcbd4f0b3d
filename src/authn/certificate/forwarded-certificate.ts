import { parseWorkloadSpiffeId, type TrustDomain, workloadSpiffeId } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import type { Caller } from "../caller.ts";
import { rejectCredential } from "../credential-rejection.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";

/** The header in which Envoy, and so Istio, forwards the certificate of a proxy's client. */
export const forwardedHeader = "x-forwarded-client-cert";

/**
 * Authenticates the client of a gateway, as Istio's `XfccAuthenticator` does. Istio trusts the address
 * of the proxy; here the proxy must prove an account that its issuer's table calls a gateway. The
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
 * The URI of the client's certificate. Two hops or two URIs are refused: nothing says which of them the
 * gateway verified.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
function parseForwardedUri(header: string): string {
  const uris: string[] = [];
  for (const part of header.length > maximumLength ? [""] : header.split(";")) {
    const [, key, value] = pair.exec(part) ?? [];
    if (key === undefined)
      throw rejectCredential("form", "the forwarded certificate has an unknown form");
    if (key === "URI") uris.push(value ?? "");
  }
  const [uri, ...more] = uris;
  if (uri === undefined || more.length > 0) {
    throw rejectCredential("form", "the forwarded certificate does not have exactly one URI");
  }
  return uri;
}
