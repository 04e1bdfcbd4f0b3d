import * as z from "zod/mini";
import type { Mint } from "../../ca/mint.ts";
import {
  certificatesIn,
  type UpstreamAuthority,
  UpstreamError,
  UpstreamProtocol,
} from "../../ca/upstream-authority.ts";
import { ConfigurationError, messageOf } from "../../foundation/errors.ts";
import { FetchError, type Fetching, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import { baseUrl, jsonText } from "../../foundation/text.ts";
import type { Credential } from "../../kubernetes/client.ts";
import { Hex } from "../../pki/encoding/bytes.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { SpiffeId, type TrustDomain } from "../../pki/spiffe-id.ts";
import { CertificateSigningRequest } from "../../pki/x509/certificate-signing-request.ts";
import { Intermediate } from "../../pki/x509/intermediate.ts";
import { SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { matching } from "../form.ts";
import type { PlatformKeys } from "../platform-keys.ts";
import { upstreamCredential } from "../secrets.ts";

/** The certificates that a table holds, PEM. */
export const certificatesInPem = z
  .string()
  .check(z.maxLength(65_536), z.refine(Pem.isCertificates, "must be certificates in PEM"));

const members = z.strictObject({
  /** Another Rampart, the PKI engine of HashiCorp Vault and OpenBao, or a key in a key service. */
  kind: z.enum(["rampart", "vault", "key-service"]),
  url: z.optional(baseUrl),
  /** The URIs of a key in a key service: of one key, or of one multi-region key in each region. */
  keys: z.optional(z.array(z.string()).check(z.minLength(1), z.maxLength(8))),
  /** The root's certificate, which `rampart authority root` makes, followed by the certificates above it, PEM. */
  root: z.optional(certificatesInPem),
  /** The path of Vault's PKI engine. */
  mount: z._default(
    matching(/^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*$/, "must be a path without dots"),
    "pki",
  ),
  /** The roots that verify the server's certificate, PEM; by default the system's. */
  ca: z.optional(certificatesInPem),
});

/** Requires the members that the kind of upstream CA needs, and refuses those that have no meaning for it. */
const table = members.check(({ value, issues }) => {
  const isKey = value.kind === "key-service";
  const rules = { url: !isKey, keys: isKey, root: isKey } as const;
  for (const [name, isNeeded] of Object.entries(rules)) {
    const isGiven = value[name as keyof typeof rules] !== undefined;
    const message = isNeeded ? "is required" : `is not for the kind ${value.kind}`;
    if (isGiven !== isNeeded) issues.push({ code: "custom", message, path: [name], input: value });
  }
});

/** `UPSTREAM_AUTHORITY`, checked: the CA that certifies the authorities. */
export type UpstreamTable = z.output<typeof table>;

/** `UPSTREAM_AUTHORITY`: a table, or the same as JSON in a text. */
export const upstreamTable = z.pipe(jsonText, table);

/** What a platform provides for requests to a CA upstream. */
export interface UpstreamContext {
  readonly fetching: Fetching;
  /** Whether a credential may be missing until the CA upstream is asked, as in a verb. */
  readonly mayLackCredential?: boolean;
  readonly clock: () => Date;
  readonly keyCustody?: PlatformKeys | undefined;
}

/** What a configuration says of the CA upstream. */
interface UpstreamConfiguration {
  readonly upstream: UpstreamTable | undefined;
  readonly trustDomain: TrustDomain;
  readonly clusterCredentials: ReadonlyMap<string, Credential>;
}

/** Long enough for a CA whose HSM is far away. No caller waits for it. */
const timeoutMilliseconds = 30_000;

/**
 * The CA upstream of a configuration, if it has one. No request is sent yet.
 *
 * @throws ConfigurationError if the credential is missing (with `mayLackCredential`, each request throws UpstreamError
 *   instead), or for a key service without `keyCustody`.
 */
export function upstreamOf(
  configuration: UpstreamConfiguration,
  { fetching, mayLackCredential, clock, keyCustody }: UpstreamContext,
): UpstreamAuthority | undefined {
  const { upstream: table, clusterCredentials, trustDomain } = configuration;
  if (!table) return undefined;
  if (table.kind === "key-service") return rootInService(table, trustDomain, clock, keyCustody);
  const credential = clusterCredentials.get(upstreamCredential);
  if (credential)
    return createUpstream(table, protocolOf(table, configuration), credential, fetching);
  if (!mayLackCredential) throw new ConfigurationError([`${upstreamCredential}: is required`]);
  return async () => {
    throw new UpstreamError(`${upstreamCredential} is required to ask the CA upstream`);
  };
}

/** The root in a key service that signs CRLs; `undefined` for another upstream CA. @throws ConfigurationError for a bad root. */
export function crlRootOf(
  table: UpstreamTable | undefined,
  keyCustody: PlatformKeys | undefined,
): NonNullable<Mint["crlRoot"]> | undefined {
  if (table?.kind !== "key-service" || !keyCustody) return undefined;
  try {
    const signer = keyCustody.serviceRootSigner(partsOf(table, keyCustody));
    return { signer, keep: keyCustody.keepRootCrls };
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw new ConfigurationError([`UPSTREAM_AUTHORITY.root: ${messageOf(error)}`]);
  }
}

const partsOf = ({ keys = [], root = "" }: UpstreamTable, { keyServices }: PlatformKeys) => ({
  keys: keys.map(keyServices),
  certificates: certificatesIn([root]),
});

/** A root whose key never leaves its service; this CA writes, lints and verifies what the root signs. */
function rootInService(
  table: UpstreamTable,
  trustDomain: TrustDomain,
  clock: () => Date,
  keyCustody: PlatformKeys | undefined,
): UpstreamAuthority {
  if (!keyCustody)
    throw new ConfigurationError([
      "UPSTREAM_AUTHORITY: a key service needs main = src/worker/main-with-keys.ts",
    ]);
  const root = { ...partsOf(table, keyCustody), trustDomain, clock };
  return (request) =>
    keyCustody.certifyBelow(root, request).catch((error: unknown) => {
      throw new UpstreamError(`the key service: ${messageOf(error)}`);
    });
}

function protocolOf(
  { kind, mount }: UpstreamTable,
  { trustDomain }: UpstreamConfiguration,
): UpstreamProtocol {
  if (kind === "rampart") return UpstreamProtocol.rampart;
  return UpstreamProtocol.vault(mount, {
    name: (csr) =>
      Intermediate.nameOf(
        trustDomain,
        Hex.format(SubjectPublicKey.keyIdentifier(CertificateSigningRequest.readKey(csr))),
      ),
    organization: trustDomain.slice(0, 64),
    uri: SpiffeId.ofTrustDomain(trustDomain),
  });
}

function createUpstream(
  { url = "", ca }: UpstreamTable,
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
    if (response.status === 200) return ResponseBody.readJson(response);
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

/** The contradictions between `AUTHORITY_ROOT` and `UPSTREAM_AUTHORITY`. */
export function rootFaults(authorityRoot: string, upstream: UpstreamTable | undefined): string[] {
  const isUpstream = authorityRoot === "upstream";
  if (isUpstream === (upstream !== undefined)) return [];
  if (isUpstream) return ["UPSTREAM_AUTHORITY: is required"];
  return ['UPSTREAM_AUTHORITY: has no effect unless AUTHORITY_ROOT is "upstream"'];
}
