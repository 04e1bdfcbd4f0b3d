import * as z from "zod/mini";
import { Base64 } from "../pki/encoding/base64.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { Pem } from "../pki/encoding/pem.ts";
import { CaCertificate } from "../pki/path/certification-path.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { CertSigner } from "./issuance/signer-names.ts";

/** The request of this CA to a CA upstream. */
export interface UpstreamRequest {
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  /** How long the intermediate shall live. The CA upstream may decide on less. */
  readonly lifetimeSeconds: number;
  /** The roots of the store, DER. A root in a key service may have been renewed since the configuration was written. */
  readonly knownRoots?: readonly Bytes[];
}

/** The certificates of an answer, DER, none of them verified. */
export interface UpstreamAnswer {
  /** The intermediate first, then the certificates between it and its root. */
  readonly chain: readonly Bytes[];
  readonly roots: readonly Bytes[];
}

/**
 * A CA that certifies intermediates by itself. It may hang, refuse, or answer anything: an implementation
 * bounds time and size, and authenticates the server, whose roots the mesh will trust.
 *
 * @throws UpstreamError if no certificates come.
 */
export type UpstreamAuthority = (request: UpstreamRequest) => Promise<UpstreamAnswer>;

/** Why a CA upstream gave no intermediate that could be installed. It never contains a credential or a CSR. */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
}

/** How intermediates are requested of one kind of CA: the request as JSON, and the parser of its answer. */
export interface UpstreamProtocol {
  readonly path: string;
  readonly headers: (credential: string) => Readonly<Record<string, string>>;
  readonly body: (request: UpstreamRequest) => object;
  /** Parses an answer. @throws UpstreamError for any other JSON. */
  readonly answer: (json: unknown) => UpstreamAnswer;
}

/** The names of an intermediate, for a CA that takes none from the CSR. */
interface IntermediateNames {
  /** The common name, by the key of the CSR. */
  readonly name: (csr: Bytes) => string;
  readonly organization: string;
  readonly uri: string;
}

const pem = z.string().check(z.maxLength(65_536));
const rampartAnswer = z.object({
  certChain: z.array(pem).check(z.minLength(2), z.maxLength(16)),
});
const vaultAnswer = z.object({
  data: z.object({
    certificate: pem,
    issuing_ca: z.optional(pem),
    ca_chain: z.optional(z.nullable(z.array(pem).check(z.maxLength(16)))),
  }),
});

/** The protocols of CAs upstream. */
export const UpstreamProtocol = {
  /** Another Rampart: Istio's `CreateCertificate` as Connect's JSON, with the roots as the last element. */
  rampart: {
    path: "/istio.v1.auth.IstioCertificateService/CreateCertificate",
    headers: (credential) => ({ authorization: `Bearer ${credential}` }),
    body: ({ csr, lifetimeSeconds }) => ({
      csr: csrPem(csr),
      validityDuration: `${Math.floor(lifetimeSeconds)}`,
      metadata: { CertSigner: CertSigner.intermediate },
    }),
    answer: (json) => {
      const { certChain } = read(rampartAnswer, json);
      const roots = certificatesIn(certChain.slice(-1));
      return { chain: certificatesIn(certChain.slice(0, -1)), roots };
    },
  } satisfies UpstreamProtocol,

  /**
   * The PKI engine of HashiCorp Vault and OpenBao. It takes the names from the parameters, not from the CSR.
   * The anchors are the self-signed certificates of its answer.
   */
  vault(mount: string, { name, organization, uri }: IntermediateNames): UpstreamProtocol {
    return {
      path: `/v1/${mount}/root/sign-intermediate`,
      headers: (credential) => ({ "x-vault-token": credential, "x-vault-request": "true" }),
      body: ({ csr, lifetimeSeconds }) => ({
        csr: csrPem(csr),
        common_name: name(csr),
        exclude_cn_from_sans: true,
        organization,
        uri_sans: uri,
        ttl: `${Math.floor(lifetimeSeconds)}s`,
        max_path_length: 0,
        use_csr_values: false,
        format: "pem",
      }),
      answer: (json) => {
        const { certificate, issuing_ca, ca_chain } = read(vaultAnswer, json).data;
        const above = certificatesIn([...(ca_chain ?? []), ...(issuing_ca ? [issuing_ca] : [])]);
        const chain = [...certificatesIn([certificate]), ...above.filter((der) => !isRoot(der))];
        return { chain: distinct(chain), roots: distinct(above.filter(isRoot)) };
      },
    };
  },
};

const csrPem = (csr: Bytes): string => Pem.format("CERTIFICATE REQUEST", csr);

/** Parses an answer. The error says nothing of its content, so that no credential gets into a message. */
function read<T>(form: z.ZodMiniType<T>, json: unknown): T {
  const parsed = form.safeParse(json);
  if (parsed.success) return parsed.data;
  const field = parsed.error.issues[0]?.path.map(String).join(".");
  throw new UpstreamError(`the CA upstream answered no certificate (${field || "not an object"})`);
}

/**
 * Extracts the certificates of PEM texts, DER. A block that is not base64 is left out, as is a text that
 * {@link Pem.blocks} refuses.
 */
export function certificatesIn(texts: readonly string[]): readonly Bytes[] {
  return texts
    .flatMap((text) => Pem.certificates(text))
    .map(Base64.parse)
    .filter((der) => der !== undefined);
}

function isRoot(der: Bytes): boolean {
  try {
    return CaCertificate.isSelfIssued(Certificate.parse(der));
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}

const distinct = (certificates: readonly Bytes[]): readonly Bytes[] => [
  ...new Map(certificates.map((der) => [der.join(), der])).values(),
];
