import * as z from "zod/mini";
import { intermediateSigner } from "../ca/issuance/product.ts";
import {
  type UpstreamAnswer,
  type UpstreamAuthority,
  UpstreamError,
  type UpstreamRequest,
} from "../ca/upstream-authority.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { FetchError, type Fetching, readJson, toFetchError } from "../foundation/fetch.ts";
import { jsonText } from "../foundation/json.ts";
import { baseUrl } from "../foundation/text.ts";
import type { Credential } from "../kubernetes/client.ts";
import { parseBase64 } from "../pki/encoding/base64.ts";
import { type Bytes, toHex } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { certificateBlocks, isCertificateBlocks, toPem } from "../pki/encoding/pem.ts";
import { isSelfIssued } from "../pki/path/certification-path.ts";
import { type TrustDomain, trustDomainSpiffeId } from "../pki/spiffe-id.ts";
import { parseCertificate } from "../pki/x509/certificate.ts";
import { readRequestedKey } from "../pki/x509/certificate-signing-request.ts";
import { intermediateName } from "../pki/x509/intermediate.ts";
import { keyIdentifier } from "../pki/x509/subject-public-key.ts";

/** The secret with the credential for the CA upstream: a bearer token of Rampart, or a token of Vault. */
export const upstreamCredential = "UPSTREAM_CREDENTIAL";

const table = z.strictObject({
  /** Another Rampart, or the PKI engine of HashiCorp Vault and OpenBao. */
  kind: z.enum(["rampart", "vault"]),
  url: baseUrl,
  /** The path of Vault's PKI engine. */
  mount: z._default(
    z
      .string()
      .check(z.regex(/^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*$/, "must be a path without dots")),
    "pki",
  ),
  /** The roots that the certificate of the server must lead to, PEM; the system's without it. */
  ca: z.optional(
    z
      .string()
      .check(z.maxLength(65_536), z.refine(isCertificateBlocks, "must be certificates in PEM")),
  ),
});

/** `UPSTREAM_AUTHORITY`, checked: the CA that certifies the authorities. */
export type UpstreamTable = z.output<typeof table>;

/** `UPSTREAM_AUTHORITY`: a table, or the same as JSON in a text. */
export const upstreamTable = z.pipe(jsonText, table);

/** What a configuration says of the CA upstream. */
interface UpstreamConfiguration {
  readonly upstream: UpstreamTable | undefined;
  readonly trustDomain: TrustDomain;
  readonly clusterCredentials: ReadonlyMap<string, Credential>;
}

/** A CA may sign in an HSM that is far away. The authority that signs does not wait for it. */
const timeoutMilliseconds = 30_000;

/**
 * The CA upstream of a configuration, if it has one.
 *
 * @param isServer Whether a credential is required at the start. A verb may lack it until it asks.
 * @throws ConfigurationError
 */
export function upstreamOf(
  configuration: UpstreamConfiguration,
  fetching: Fetching | undefined,
  isServer: boolean,
): UpstreamAuthority | undefined {
  const { upstream: table, clusterCredentials } = configuration;
  if (!table) return undefined;
  const credential = clusterCredentials.get(upstreamCredential);
  if (isServer && !credential) throw new ConfigurationError([`${upstreamCredential}: is required`]);
  if (!fetching || !credential) {
    return async () => {
      throw new UpstreamError(`${upstreamCredential} is required to ask the CA upstream`);
    };
  }
  return createUpstream(table, protocolOf(table, configuration), credential, fetching);
}

function protocolOf(
  { kind, mount }: UpstreamTable,
  { trustDomain }: UpstreamConfiguration,
): UpstreamProtocol {
  if (kind === "rampart") return rampartProtocol;
  return vaultProtocol(mount, {
    name: (csr) => intermediateName(trustDomain, toHex(keyIdentifier(readRequestedKey(csr)))),
    organization: trustDomain.slice(0, 64),
    uri: trustDomainSpiffeId(trustDomain),
  });
}

function createUpstream(
  { url, ca }: UpstreamTable,
  protocol: UpstreamProtocol,
  credential: Credential,
  { fetchTrusting, fetchTimeoutMilliseconds = timeoutMilliseconds }: Fetching,
): UpstreamAuthority {
  const fetch = fetchTrusting(ca);
  const send = async (body: object): Promise<unknown> => {
    const headers = protocol.headers(await credential());
    const response = await fetch(`${url}${protocol.path}`, {
      method: "POST",
      headers: { ...headers, accept: "application/json", "content-type": "application/json" },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: AbortSignal.timeout(fetchTimeoutMilliseconds),
    });
    if (response.status === 200) return readJson(response);
    await response.body?.cancel();
    throw new FetchError(`answered with status ${response.status}`, { status: response.status });
  };
  return async (request) => {
    try {
      return protocol.answer(await send(protocol.body(request)));
    } catch (error) {
      if (error instanceof UpstreamError) throw error;
      throw new UpstreamError(`the CA upstream ${toFetchError(error, "did not answer").message}`);
    }
  };
}

/** How one kind of CA is asked: its request as JSON, and its answer. */
interface UpstreamProtocol {
  readonly path: string;
  readonly headers: (credential: string) => Readonly<Record<string, string>>;
  readonly body: (request: UpstreamRequest) => object;
  /** @throws UpstreamError */
  readonly answer: (json: unknown) => UpstreamAnswer;
}

const rampartAnswer = z.object({
  certChain: z.array(z.string().check(z.maxLength(65_536))).check(z.minLength(2), z.maxLength(16)),
});

/** Another Rampart: Istio's `CreateCertificate` as Connect's JSON, with the roots as the last element. */
const rampartProtocol: UpstreamProtocol = {
  path: "/istio.v1.auth.IstioCertificateService/CreateCertificate",
  headers: (credential) => ({ authorization: `Bearer ${credential}` }),
  body: ({ csr, lifetimeSeconds }) => ({
    csr: csrPem(csr),
    validityDuration: `${Math.floor(lifetimeSeconds)}`,
    metadata: { CertSigner: intermediateSigner },
  }),
  answer: (json) => {
    const { certChain } = read(rampartAnswer, json);
    const roots = certificatesIn(certChain.slice(-1));
    return { chain: certificatesIn(certChain.slice(0, -1)), roots };
  },
};

const pem = z.string().check(z.maxLength(65_536));
const vaultAnswer = z.object({
  data: z.object({
    certificate: pem,
    issuing_ca: z.optional(pem),
    ca_chain: z.optional(z.nullable(z.array(pem).check(z.maxLength(16)))),
  }),
});

/**
 * The PKI engine of HashiCorp Vault and OpenBao. It takes the names from the parameters, not from the CSR.
 * The anchors are the self-signed certificates of its answer.
 */
function vaultProtocol(
  mount: string,
  {
    name,
    organization,
    uri,
  }: { readonly name: (csr: Bytes) => string; readonly organization: string; readonly uri: string },
): UpstreamProtocol {
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
}

const csrPem = (csr: Bytes): string => toPem("CERTIFICATE REQUEST", csr);

/** The form of an answer says nothing of its content, so that no credential gets into a message. */
function read<T>(form: z.ZodMiniType<T>, json: unknown): T {
  const parsed = form.safeParse(json);
  if (parsed.success) return parsed.data;
  const field = parsed.error.issues[0]?.path.map(String).join(".");
  throw new UpstreamError(`the CA upstream answered no certificate (${field || "not an object"})`);
}

function certificatesIn(texts: readonly string[]): readonly Bytes[] {
  return texts
    .flatMap(certificateBlocks)
    .map(parseBase64)
    .filter((der) => der !== undefined);
}

function isRoot(der: Bytes): boolean {
  try {
    return isSelfIssued(parseCertificate(der));
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}

const distinct = (certificates: readonly Bytes[]): readonly Bytes[] => [
  ...new Map(certificates.map((der) => [der.join(), der])).values(),
];

/** The contradictions between `AUTHORITY_ROOT` and `UPSTREAM_AUTHORITY`. */
export function rootFaults({
  AUTHORITY_ROOT,
  UPSTREAM_AUTHORITY,
}: {
  readonly AUTHORITY_ROOT: string;
  readonly UPSTREAM_AUTHORITY?: UpstreamTable | undefined;
}): string[] {
  const isUpstream = AUTHORITY_ROOT === "upstream";
  if (isUpstream && !UPSTREAM_AUTHORITY) return ["UPSTREAM_AUTHORITY: is required"];
  if (isUpstream || !UPSTREAM_AUTHORITY) return [];
  return ['UPSTREAM_AUTHORITY: has no effect unless AUTHORITY_ROOT is "upstream"'];
}
