import { X509Certificate } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { CaError } from "../../foundation/errors.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import { podUid } from "../../kubernetes/names.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import { CertificateSigningRequest } from "../../pki/x509/certificate-signing-request.ts";
import { PodKeyProof } from "../../pki/x509/pod-key-proof.ts";
import { bitLength, SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, Validity } from "../../pki/x509/validity.ts";
import type { CertificateAsk, CertificateSource } from "../gateway/certificate-source.ts";
import { nodeCryptoProvider } from "../node-crypto-provider.ts";
import type {
  PodCertificateRequest,
  PodCertificateStatus,
  RequestedKey,
} from "./pod-certificate-request.ts";
import {
  type PodKeyType,
  type PodPolicy,
  podKeyTypes,
  type SignerName,
} from "./signer-configuration.ts";

/**
 * Judges a PodCertificateRequest by itself and the configuration.
 *
 * @returns The answer to a request that gets no certificate, else a function that asks the CA and rejects while it has
 *   no answer.
 */
export type PodCertificates = (
  request: PodCertificateRequest,
) => Promise<PodCertificateStatus | ((now: Date) => Promise<PodCertificateStatus>)>;

/**
 * Creates the function that grants the X509-SVID of the pod's account, or denies by the policy of this signer.
 *
 * A denial is final, and the kubelet then removes the certificate of a running pod. So a request is denied only if the
 * request itself or the configuration rules it out. A refusal of the CA, which may be corrected, rejects.
 */
export function podCertificates(
  { maximumSeconds }: Pick<SignerName, "maximumSeconds">,
  policy: PodPolicy,
  trustDomain: TrustDomain,
  certificate: CertificateSource,
): PodCertificates {
  const isServed = nameAllowList(policy.namespaces);
  return async (request) => {
    if (request.hasAnnotations)
      return denied("InvalidUnverifiedUserAnnotations", unknownAnnotations);
    if (!isServed(request.namespace)) return denied("NamespaceNotServed", notServed);
    if (!podUid.safeParse(request.pod.uid).success) return noPodUid;
    const proved = await provedKey(request.key, request.pod.uid);
    if ("type" in proved) return proved;
    const type = podKeyTypeOf(proved.publicKey);
    if (!type || !policy.key_types.includes(type)) return unsupportedKey(policy);
    const spiffeId = SpiffeId.ofWorkload(trustDomain, request.account);
    const ask: CertificateAsk = {
      csrPem: proved.csrPem,
      // Less the backdating, because Kubernetes measures from notBefore.
      requestedSeconds: Math.min(request.maximumSeconds, maximumSeconds) - Validity.backdateSeconds,
      metadata: {
        ImpersonatedIdentity: spiffeId,
        PodName: request.pod.name,
        PodUid: request.pod.uid,
        NodeName: request.node,
        ...(policy.authority !== "" && { CertSigner: policy.authority }),
        ...proved.metadata,
      },
    };
    return async (now) => {
      const chain = await certificate({ ...ask, request: request.uid });
      return issued(isTakenAt(now, chain) ? chain : await certificate(ask), spiffeId);
    };
  };
}

const unknownAnnotations = "this signer knows no user annotations: remove userAnnotations";
const notServed = "this signer does not serve the namespace";

const denied = (reason: string, message: string): PodCertificateStatus => ({
  type: "Denied",
  reason,
  message,
});

/** Failed here, because the CA would refuse it, and the request would wait for ever. */
const noPodUid: PodCertificateStatus = {
  type: "Failed",
  reason: "InvalidPodUid",
  message: "podUID is not the UID of a pod",
};

const unsupportedKey = ({ key_types }: Pick<PodPolicy, "key_types">): PodCertificateStatus =>
  denied("UnsupportedKeyType", `this signer takes keys of type ${key_types.join(", ")}`);

/** The key of a request, and the proof of possession for the CA. */
interface ProvedKey {
  readonly publicKey: SubjectPublicKey;
  readonly csrPem: string;
  readonly metadata: JsonObject;
}

/** Verifies the proof of possession before the CA does, so that a request without one fails here, and is not sent. */
async function provedKey(
  key: RequestedKey,
  podUid: string,
): Promise<ProvedKey | PodCertificateStatus> {
  try {
    return await ("pkcs10" in key ? provedByRequest(key.pkcs10) : provedByUid(key, podUid));
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    const { message, refusal } = error;
    return refusal.reason === "subject-key-unacceptable"
      ? denied("UnsupportedKeyType", message)
      : { type: "Failed", reason: "InvalidProofOfPossession", message };
  }
}

type Pkcs10 = Extract<RequestedKey, { readonly pkcs10: unknown }>["pkcs10"];
type KeyOverUid = Extract<RequestedKey, { readonly publicKey: unknown }>;

async function provedByRequest(pkcs10: Pkcs10): Promise<ProvedKey> {
  const csrPem = Pem.format("CERTIFICATE REQUEST", pkcs10);
  const publicKey = await CertificateSigningRequest.parse(csrPem, nodeCryptoProvider);
  return { publicKey, csrPem, metadata: {} };
}

async function provedByUid(
  { publicKey: spki, signature }: KeyOverUid,
  podUid: string,
): Promise<ProvedKey> {
  const csrPem = Pem.format("PUBLIC KEY", spki);
  const proof = PodKeyProof.parse(podUid, signature);
  if (!proof) {
    throw new CaError({ reason: "csr-malformed" }, "the proof of possession is malformed");
  }
  const publicKey = await PodKeyProof.parseKey(csrPem, proof, nodeCryptoProvider);
  return { publicKey, csrPem, metadata: { ProofOfPossession: signature } };
}

/** The API server refuses a notBefore five minutes off its clock, which may differ from this one. */
const longestTakenSeconds = 240;

/** Whether the API server still takes a certificate, which may be the answer to an earlier attempt. */
const isTakenAt = (now: Date, [leafPem = ""]: readonly string[]): boolean =>
  now < addSeconds(new X509Certificate(leafPem).validFromDate, longestTakenSeconds);

/** The answer with a certificate, to be refreshed at half of its life: by then the next root is in every bundle. */
function issued(chain: readonly string[], spiffeId: string): PodCertificateStatus {
  const leaf = new X509Certificate(chain[0] ?? "");
  if (!SpiffeId.isNamedBy(leaf.subjectAltName, spiffeId)) {
    throw new Error("the CA answers the certificate of another workload");
  }
  const { validFromDate: notBefore, validToDate: notAfter } = leaf;
  const beginRefreshAt = new Date((notBefore.getTime() + notAfter.getTime()) / 2);
  return { type: "Issued", certificateChain: chain.join(""), notBefore, notAfter, beginRefreshAt };
}

/** Kubernetes' name of a key's type; `undefined` for a type that it does not have. */
function podKeyTypeOf(key: SubjectPublicKey): PodKeyType | undefined {
  switch (key.algorithm) {
    case "EC-P256":
      return "ECDSAP256";
    case "EC-P384":
      return "ECDSAP384";
    case "EC-P521":
      return "ECDSAP521";
    case "Ed25519":
      return "ED25519";
    case "RSA":
      return podKeyTypes.find(
        (type) => type === `RSA${bitLength(SubjectPublicKey.rsaModulus(key))}`,
      );
    // Kubernetes requests no certificates for post-quantum keys.
    case "ML-DSA-44":
    case "ML-DSA-65":
    case "ML-DSA-87":
      return undefined;
  }
}
