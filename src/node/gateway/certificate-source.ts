import { create, fromBinary, type JsonObject, toBinary } from "@bufbuild/protobuf";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../gen/istio/v1/auth/ca_pb.ts";
import type { GatewayCredentials, Upstream } from "./upstream.ts";

/** A request for a certificate of the gateway or of a signer's subject. */
export interface CertificateAsk {
  /** The CSR, or a public key with its proof in the metadata. */
  readonly csrPem: string;
  /** If absent, the CA grants its default lifetime. */
  readonly requestedSeconds?: number;
  readonly metadata: JsonObject;
  /** The UID of the object that requests it. If the CA is asked again, it repeats its answer. */
  readonly request?: string | undefined;
}

/**
 * Requests a certificate of the CA.
 * @returns PEM, the leaf first, then the intermediates, no root.
 *
 * @throws ConnectError for a refusal of the CA; any other error means that the CA is unreachable.
 */
export type CertificateSource = (ask: CertificateAsk) => Promise<readonly string[]>;

const timeoutMs = 20_000;

/** Creates a source that asks the CA with a program's own credential. The CA decides what that credential may have. */
export function certificatesFrom(
  upstream: Upstream,
  credentials: GatewayCredentials,
  signal: AbortSignal,
): CertificateSource {
  return async ({ csrPem, requestedSeconds = 0, metadata, request }) => {
    const asked = create(IstioCertificateRequestSchema, {
      csr: csrPem,
      validityDuration: BigInt(requestedSeconds),
      metadata: request === undefined ? metadata : { ...metadata, RequestUid: request },
    });
    const answer = await upstream.createCertificate(
      toBinary(IstioCertificateRequestSchema, asked),
      {
        headers: await credentials(),
        timeoutMs,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      },
    );
    const { certChain } = fromBinary(IstioCertificateResponseSchema, answer);
    if (certChain.length < 2) throw new Error("the CA answers a chain without a root");
    return certChain.slice(0, -1);
  };
}
