import { generateKeyPair, X509Certificate } from "node:crypto";
import { promisify } from "node:util";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { servingSigner } from "../../ca/issuance/serving-policy.ts";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import { createCertificateRequest } from "../../program/certificate-request.ts";
import { readTokenFile } from "../../program/files/token-file.ts";
import { createRefreshing } from "../../program/refreshing.ts";
import {
  renewalOf,
  type ServingCertificate,
  type ServingCertificateSource,
} from "../tls/serving-certificate.ts";
import type { Upstream } from "./upstream.ts";

/** The headers with the gateway's own credential. */
export type GatewayCredentials = () => Promise<{
  readonly authorization: string;
  readonly clusterid: string;
}>;

/** The credential of a token in a file. Each call reads it anew, because the kubelet replaces it. */
export function tokenInFile(path: string, clusterid: string): GatewayCredentials {
  return async () => {
    return { authorization: `Bearer ${await readTokenFile(path)}`, clusterid };
  };
}

/**
 * Requests the serving certificate from the CA, for a new key. The CA's table decides its DNS names. A
 * renewal comes before half of the certificate's life is over.
 *
 * @param failed Called for each failed renewal.
 */
export function certificateFromUpstream(
  upstream: Upstream,
  credentials: GatewayCredentials,
  failed: (error: unknown) => void,
): ServingCertificateSource {
  return createRefreshing({
    fetch: () => request(upstream, credentials),
    dueAt: ({ chainPem }, now) => renewalOf(new X509Certificate(chainPem).validToDate, now),
    failed,
  });
}

const generate = promisify(generateKeyPair);

async function request(
  upstream: Upstream,
  credentials: GatewayCredentials,
): Promise<ServingCertificate> {
  const key = await generate("ec", { namedCurve: "P-256" });
  const asked = create(IstioCertificateRequestSchema, {
    csr: await createCertificateRequest(key, undefined),
    metadata: { CertSigner: servingSigner },
  });
  const message = toBinary(IstioCertificateRequestSchema, asked);
  const answer = await upstream.createCertificate(message, { headers: await credentials() });
  const { certChain } = fromBinary(IstioCertificateResponseSchema, answer);
  const keyPem = key.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { chainPem: certChain.slice(0, -1).join(""), keyPem };
}
