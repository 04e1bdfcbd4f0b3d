import { X509Certificate } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { CertSigner, maximumServingNames } from "../../ca/issuance/signer-names.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { type ServiceAccount, SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import {
  type RequestedExtensions,
  readRequestedExtensions,
} from "../../pki/x509/requested-extensions.ts";
import type { CertificateAsk } from "../gateway/certificate-source.ts";
import type { CertManagerRequest, CertManagerStatus } from "./cert-manager-request.ts";
import { type Fault, keyFaultOf, namesOf } from "./service-certificates.ts";
import type { CertManagerPolicy, SignerName } from "./signer-configuration.ts";

/** A request that the rules allow: what to ask the CA for, and the names that its certificate must have. */
interface AllowedRequest {
  readonly ask: CertificateAsk;
  readonly spiffeId: string | undefined;
  readonly dnsNames: readonly string[];
}

/**
 * Judges a CertificateRequest by its content and the rules of a signer name.
 *
 * @returns What to ask the CA for; the final status if the request is not allowed.
 */
export type CertManagerCertificates = (
  request: CertManagerRequest,
) => Promise<AllowedRequest | CertManagerStatus>;

/**
 * Creates the function that judges the requests for a signer name. A SPIFFE ID becomes an X509-SVID; DNS names alone
 * become a serving certificate. Every name must be allowed by a rule, and nothing else may be requested.
 */
export function certManagerCertificates(
  { cert_manager, maximumSeconds }: Pick<SignerName, "cert_manager" | "maximumSeconds">,
  trustDomain: TrustDomain,
): CertManagerCertificates {
  const rules = cert_manager.map(ruleOf);
  return async (request) => {
    const keyFault = await keyFaultOf(request.csrPem);
    if (keyFault) return failed(keyFault);
    const names = namesIn(request.csrPem);
    if ("reason" in names) return failed(names);
    const fault = contentFaultOf(request, names) ?? nameFaultOf(request, names, rules, trustDomain);
    if (fault) return failed(fault);
    const { csrPem, uid, seconds = maximumSeconds } = request;
    const { uris, dnsNames } = names;
    const [spiffeId] = uris;
    const metadata = {
      ...(spiffeId === undefined
        ? { CertSigner: CertSigner.serving, DnsNames: [...dnsNames] }
        : { ImpersonatedIdentity: spiffeId }),
      ...holderOf(request, spiffeId),
    };
    const requestedSeconds = Math.min(seconds, maximumSeconds);
    return { ask: { csrPem, requestedSeconds, metadata, request: uid }, spiffeId, dnsNames };
  };
}

/**
 * Compares the CA's certificate with what was allowed.
 *
 * @returns The answer if a DNS name is missing, because the CA adds DNS names to a SPIFFE ID only by a rule. Otherwise
 *   `undefined`.
 * @throws Error for the certificate of another workload.
 */
export function issuedFault(
  [leafPem = ""]: readonly string[],
  { spiffeId, dnsNames }: Pick<AllowedRequest, "spiffeId" | "dnsNames">,
): CertManagerStatus | undefined {
  const { subjectAltName = "" } = new X509Certificate(leafPem);
  if (spiffeId !== undefined && !SpiffeId.isNamedBy(subjectAltName, spiffeId)) {
    throw new Error("the CA answers the certificate of another workload");
  }
  const names = new Set(subjectAltName.split(", "));
  if (dnsNames.every((name) => names.has(`DNS:${name}`))) return undefined;
  const message = "no rule of the CA gives the SPIFFE ID all of the DNS names";
  return failed({ reason: "NameNotAllowed", message });
}

const failed = ({ reason: fault, message }: Fault): CertManagerStatus => ({
  reason: "Failed",
  fault,
  message: `${fault}: ${message}`,
});

/**
 * The metadata about the certificate's holder, as far as the request shows it. The accounts of cert-manager and
 * istio-csr, which create the requests of others, are no holders.
 */
function holderOf(
  { namespace, requester }: CertManagerRequest,
  spiffeId: string | undefined,
): JsonObject {
  if (requester?.account.namespace !== namespace) return {};
  const named = spiffeId === undefined ? undefined : SpiffeId.parseWorkload(spiffeId)?.account;
  return !named || isSame(named, requester.account) ? namesOf(requester) : {};
}

interface Rule {
  readonly fits: (request: CertManagerRequest) => boolean;
  readonly mayHave: (account: ServiceAccount, request: CertManagerRequest) => boolean;
  readonly mayName: (dnsName: string) => boolean;
}

function ruleOf({ namespaces, requester, identities, dns_names }: CertManagerPolicy): Rule {
  const isServed = nameAllowList(namespaces);
  const isNamed = nameAllowList(identities);
  return {
    fits: ({ namespace, requester: own }) =>
      isServed(namespace) && (!requester || isSame(requester, own?.account)),
    mayHave: (account, { namespace, requester: own }) =>
      requester
        ? isNamed(account.namespace)
        : account.namespace === namespace && isSame(account, own?.account),
    mayName: nameAllowList(dns_names),
  };
}

const isSame = (one: ServiceAccount, other: ServiceAccount | undefined): boolean =>
  one.namespace === other?.namespace && one.name === other.name;

function namesIn(csrPem: string): RequestedExtensions | Fault {
  try {
    return readRequestedExtensions(csrPem);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    return { reason: "InvalidRequest", message: `the CSR cannot be read: ${error.message}` };
  }
}

const servingUsages = ["digital signature", "key encipherment", "server auth"];
const peerUsages: readonly string[] = [...servingUsages, "client auth"];

function contentFaultOf(
  { isCa, usages }: CertManagerRequest,
  { uris, dnsNames, hasOtherNames, hasOtherExtensions }: RequestedExtensions,
): Fault | undefined {
  if (isCa) return { reason: "UnsupportedCA", message: "this issuer certifies no CA" };
  if (hasOtherExtensions) {
    const message = "the CSR asks for more than names and the usages of a TLS peer";
    return { reason: "UnsupportedExtensions", message };
  }
  const isOfWorkload = uris.length === 1;
  const areDns =
    dnsNames.length <= maximumServingNames && dnsNames.every((name) => DnsName.is(name));
  const hasNames = isOfWorkload || (uris.length === 0 && dnsNames.length > 0);
  if (hasOtherNames || !areDns || !hasNames) {
    const message = `the CSR must have one SPIFFE ID or up to ${maximumServingNames} DNS names, in lower case, and no other names`;
    return { reason: "UnsupportedNames", message };
  }
  const known = isOfWorkload ? peerUsages : servingUsages;
  if (usages.every((usage) => known.includes(usage))) return undefined;
  const message = `a certificate with ${isOfWorkload ? "a SPIFFE ID" : "DNS names alone"} has the usages ${known.join(", ")}`;
  return { reason: "UnsupportedUsages", message };
}

function nameFaultOf(
  request: CertManagerRequest,
  { uris, dnsNames }: RequestedExtensions,
  rules: readonly Rule[],
  trustDomain: TrustDomain,
): Fault | undefined {
  const own = rules.filter(({ fits }) => fits(request));
  const mayHave = (uri: string): boolean => {
    const workload = SpiffeId.parseWorkload(uri);
    if (workload?.trustDomain !== trustDomain) return false;
    return own.some((rule) => rule.mayHave(workload.account, request));
  };
  const mayName = (name: string): boolean => own.some((rule) => rule.mayName(name));
  if (uris.every(mayHave) && dnsNames.every(mayName)) return undefined;
  const message = "no rule of the signer gives the requester all of the names in this namespace";
  return { reason: "NameNotAllowed", message };
}
