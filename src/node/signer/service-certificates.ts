import "reflect-metadata/lite";
import type { JsonObject } from "@bufbuild/protobuf";
import { Pkcs10CertificateRequest, SubjectAlternativeNameExtension } from "@peculiar/x509";
import { CertSigner, maximumServingNames } from "../../ca/issuance/signer-names.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { CaError } from "../../foundation/errors.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import type { BoundAccount } from "../../kubernetes/pods.ts";
import { CertificateSigningRequest } from "../../pki/x509/certificate-signing-request.ts";
import type { CertificateSource } from "../gateway/certificate-source.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import type { ServiceCertificateRequest, SigningDecision } from "./service-certificate-request.ts";
import type { ServicePolicy, SignerName } from "./signer-configuration.ts";

interface AdmittedRequest {
  readonly uid: string;
  readonly csrPem: string;
  readonly dnsNames: readonly string[];
  readonly expirationSeconds: number | undefined;
  readonly requester: BoundAccount;
}

/** Issues serving certificates to services, as Istio's Chiron did. */
export interface ServiceCertificates {
  /**
   * Judges a request by the configuration alone. A request that is not admitted gets no certificate, even if somebody
   * has approved it.
   *
   * @returns The decision against a request that is not admitted.
   */
  readonly admit: (
    request: ServiceCertificateRequest,
  ) => Promise<AdmittedRequest | SigningDecision>;
  /** Obtains the chain in PEM, the leaf first and without a root. It rejects while there is none. */
  readonly certificateFor: (request: AdmittedRequest) => Promise<string>;
}

/** Creates {@link ServiceCertificates} by the rules of a signer's configuration. */
export function serviceCertificates(
  { services, maximumSeconds }: Pick<SignerName, "services" | "maximumSeconds">,
  certificate: CertificateSource,
): ServiceCertificates {
  const rules = services.map(ruleOf);
  return {
    admit: async (request) => {
      const { uid, csrPem, expirationSeconds, isApproved, requester } = request;
      const keyFault = await keyFaultOf(csrPem);
      const dnsNames = keyFault ? [] : dnsNamesIn(csrPem);
      const fault = keyFault ?? faultOf(request, dnsNames, rules);
      if (!fault && requester) return { uid, csrPem, dnsNames, expirationSeconds, requester };
      return { ...(fault ?? notServed), type: isApproved ? "Failed" : "Denied" };
    },
    certificateFor: async (admitted) => {
      const { uid, csrPem, dnsNames, expirationSeconds = maximumSeconds, requester } = admitted;
      const chain = await certificate({
        request: uid,
        csrPem,
        requestedSeconds: Math.min(expirationSeconds, maximumSeconds),
        metadata: {
          CertSigner: CertSigner.serving,
          DnsNames: [...dnsNames],
          ...namesOf(requester),
        },
      });
      return chain.join("");
    },
  };
}

/** The metadata that names the requester: the CA checks denials by it and logs it. */
export function namesOf({ account, pod, node, tokenId }: BoundAccount): JsonObject {
  return {
    Requester: `${account.namespace}/${account.name}`,
    ...(pod && { PodName: pod.name, PodUid: pod.uid }),
    ...(node && { NodeName: node.name }),
    ...(tokenId !== undefined && { TokenId: tokenId }),
  };
}

/** Why a request gets no certificate. */
export type Fault = Omit<SigningDecision, "type">;

interface Rule {
  readonly isRequester: (request: ServiceCertificateRequest) => boolean;
  readonly mayName: (dnsName: string) => boolean;
}

function ruleOf({ account, dns_names }: ServicePolicy): Rule {
  return {
    isRequester: ({ requester }) =>
      requester?.account.namespace === account.namespace && requester.account.name === account.name,
    mayName: nameAllowList(dns_names),
  };
}

/** What is wrong with the form, signature or key of a CSR. The CA checks them again; here they decide on a denial. */
export async function keyFaultOf(csrPem: string): Promise<Fault | undefined> {
  try {
    await CertificateSigningRequest.parse(csrPem, nodeCryptoProvider);
    return undefined;
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    const { message, refusal } = error;
    const isKey = refusal.reason === "subject-key-unacceptable";
    return { reason: isKey ? "UnsupportedKeyType" : "InvalidRequest", message };
  }
}

const notServed: Fault = {
  reason: "RequesterNotServed",
  message: "no policy of this signer names the requester",
};

const servingUsages: ReadonlySet<string> = new Set([
  "digital signature",
  "key encipherment",
  "server auth",
]);

function faultOf(
  request: ServiceCertificateRequest,
  dnsNames: readonly string[],
  rules: readonly Rule[],
): Fault | undefined {
  const { usages } = request;
  if (!usages.includes("server auth") || !usages.every((usage) => servingUsages.has(usage))) {
    const message = "this signer issues serving certificates: server auth, and no client auth";
    return { reason: "UnsupportedUsages", message };
  }
  if (dnsNames.length === 0 || dnsNames.length > maximumServingNames) {
    const message = `the request must have 1 to ${maximumServingNames} DNS names, in lower case, and no other names`;
    return { reason: "UnsupportedNames", message };
  }
  const own = rules.filter(({ isRequester }) => isRequester(request));
  if (own.length === 0) return notServed;
  if (dnsNames.every((name) => own.some(({ mayName }) => mayName(name)))) return undefined;
  const message = "the requester's policy does not have all of the DNS names";
  return { reason: "NameNotAllowed", message };
}

/** The DNS names of a CSR; none if it has a name of another kind or form, or cannot be read. */
function dnsNamesIn(csrPem: string): readonly string[] {
  try {
    const names = new Pkcs10CertificateRequest(csrPem).extensions
      .filter((extension) => extension instanceof SubjectAlternativeNameExtension)
      .flatMap((extension) => extension.names.items);
    const isDns = names.every(({ type, value }) => type === "dns" && DnsName.is(value));
    return isDns ? [...new Set(names.map(({ value }) => value))] : [];
  } catch {
    // Any error, because @peculiar/x509 has no class of its own for malformed input.
    return [];
  }
}
