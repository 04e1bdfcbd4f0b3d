import type { Hono } from "hono";
import type { Authorities } from "../../ca/authorities.ts";
import type { AuthorityView } from "../../ca/authority-view.ts";
import type { TokenPolicy } from "../../ca/issuance/product.ts";
import type { PublishedCrls } from "../../ca/revocation/published-crls.ts";
import { toSpiffeBundle } from "../../pki/authority/spiffe-bundle.ts";
import { TokenKey } from "../../pki/jose/token-key.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { LongPolls } from "./long-poll.ts";
import { type PolledDocument, PolledEndpoint, type Representation } from "./polled-endpoint.ts";

/** Adds the documents by which others trust this CA: its bundles, its CRLs and those of tokens. */
export function addTrustDocuments(app: Hono, ca: CertificateAuthority, longPolls: LongPolls): void {
  app.get("/bundle.pem", createBundleEndpoint(ca, longPolls, pemBundle));
  app.get("/bundle.json", createBundleEndpoint(ca, longPolls, spiffeBundle(ca)));
  addSignerBundles(app, ca, longPolls);
  addCrls(app, ca, longPolls);
  addTokenDocuments(app, ca, longPolls);
}

/** A format of the published trust bundle. */
export type BundleFormat = Omit<PolledDocument<AuthorityView>, "read">;

const pemType = "application/x-pem-file";
const jsonType = "application/json";

/** The roots as PEM blocks. */
const pemBundle: BundleFormat = {
  write: ({ trustBundle }) => PolledEndpoint.representationOf(trustBundle.pem, pemType),
};

/** The bundle as SPIFFE federates it (SPIFFE Trust Domain and Bundle §4), with the keys of JWT-SVIDs. */
export const spiffeBundle = ({ refreshHintSeconds }: CertificateAuthority): BundleFormat => ({
  write: async ({ trustBundle, tokenKeys, sequence }) => {
    const bundle = await toSpiffeBundle(trustBundle.roots, sequence, refreshHintSeconds);
    if (bundle.keys.length === 0) return undefined;
    const forTokens = await Promise.all(tokenKeys.map(TokenKey.toJwk));
    const keys = [...bundle.keys, ...forTokens.map((key) => ({ ...key, use: "jwt-svid" }))];
    return PolledEndpoint.representationOf(`${JSON.stringify({ ...bundle, keys })}\n`, jsonType);
  },
});

/**
 * A polled endpoint for the trust bundle in one format, tagged by its hash.
 *
 * For an empty bundle it answers 503: an empty one would tell verifiers to trust nobody (SPIFFE Trust Domain and
 * Bundle §4.2).
 */
export function createBundleEndpoint(
  ca: CertificateAuthority,
  longPolls: LongPolls,
  format: BundleFormat,
  authorities: () => Authorities | undefined = () => ca.issuance.authorities,
): Endpoint {
  const read = async () => authorities()?.at(ca.clock());
  return PolledEndpoint.create(ca, longPolls, { ...format, read });
}

/** Adds the PEM bundle of each named signer: the roots of the mesh, and the signer's own. Any other name gets 404. */
function addSignerBundles(app: Hono, ca: CertificateAuthority, longPolls: LongPolls): void {
  const authoritiesOf = (name: string) => ca.issuance.signers.get(name)?.authorities;
  const endpointOf = endpointsByName((name) =>
    createBundleEndpoint(ca, longPolls, pemBundle, () => authoritiesOf(name)),
  );
  app.get("/signer/:name/bundle.pem", (c) => {
    const name = c.req.param("name");
    // A changed configuration may have other signers.
    return authoritiesOf(name) ? endpointOf(name)(c) : c.notFound();
  });
}

type Endpoint = ReturnType<typeof PolledEndpoint.create>;

/** The most endpoints in memory. Beyond it all are dropped, because some may have no document any more. */
const maximumEndpoints = 100;

/** Makes the endpoint of a name at its first request. */
function endpointsByName(make: (name: string) => Endpoint): (name: string) => Endpoint {
  const endpoints = new Map<string, Endpoint>();
  return (name) => {
    const known = endpoints.get(name);
    if (known) return known;
    if (endpoints.size >= maximumEndpoints) endpoints.clear();
    const made = make(name);
    endpoints.set(name, made);
    return made;
  };
}

/**
 * Adds the documents by which relying parties outside of SPIFFE verify JWT-SVIDs. Whether there are any, and below
 * which path, is fixed at the start.
 */
function addTokenDocuments(app: Hono, ca: CertificateAuthority, longPolls: LongPolls): void {
  const { tokens } = ca.issuance;
  if (!tokens) return;
  const add = (path: string, name: keyof JwtDocuments): void => {
    const format: BundleFormat = {
      maximumAgeSeconds: documentMaximumAgeSeconds,
      write: async (view) => {
        const documents = await TrustDocuments.jwt(ca.issuance.tokens ?? tokens, view);
        return PolledEndpoint.representationOf(documents[name], jsonType);
      },
    };
    app.get(`${issuerPath(tokens)}${path}`, createBundleEndpoint(ca, longPolls, format));
  };
  add(TrustDocuments.discoveryPath, "discovery");
  add(TrustDocuments.keySetPath, "keySet");
}

/**
 * The CRLs of the authorities whose roots are in the trust bundle: all of them as PEM at `/crl.pem`, each as
 * DER at `/crl/<id of the authority>.crl`.
 *
 * The tags are weak (RFC 9110 §8.8.1): two processes sign the same list with two signatures.
 */
function addCrls(app: Hono, ca: CertificateAuthority, longPolls: LongPolls): void {
  const { crls } = ca;
  if (!crls) return;
  const read = () => crls(ca.clock());
  app.get("/crl.pem", PolledEndpoint.create(ca, longPolls, { read, write: pemOf }));

  const crlOf = async (id: string): Promise<PublishedCrls["crls"][number] | undefined> =>
    (await read()).crls.find(({ authority }) => authority === id);
  const endpointOf = endpointsByName((id) =>
    PolledEndpoint.create(ca, longPolls, { read: () => crlOf(id), write: derOf }),
  );
  app.get("/crl/:file{[0-9a-f]+\\.crl}", async (c) => {
    const id = c.req.param("file").slice(0, -".crl".length);
    return (await crlOf(id)) ? endpointOf(id)(c) : c.notFound();
  });
}

function pemOf({ pem, digest }: PublishedCrls): Representation | undefined {
  if (pem === "") return undefined;
  const body = new TextEncoder().encode(pem);
  return { body, contentType: pemType, etag: weakTag(digest) };
}

/** DER (RFC 2585 §4.2). */
const derOf = ({ der, digest }: PublishedCrls["crls"][number]): Representation => ({
  body: der,
  contentType: "application/pkix-crl",
  etag: weakTag(digest),
});

const weakTag = (digest: string): string => `W/"${digest}"`;

/** The documents by which others trust this CA. */
export const TrustDocuments = {
  /** The path of the discovery document below the issuer (OpenID Connect Discovery 1.0 §4). */
  discoveryPath: "/.well-known/openid-configuration" as const,

  /** The path of the JWK Set that verifies JWT-SVIDs. */
  keySetPath: "/.well-known/jwks.json" as const,

  /** The discovery document and the JWK Set of an issuer. They change only when the published keys change. */
  async jwt(
    { issuer, algorithm }: TokenPolicy,
    { tokenKeys, validFrom, store }: Pick<AuthorityView, "tokenKeys" | "validFrom" | "store">,
  ): Promise<JwtDocuments> {
    const algorithms = new Set([algorithm, ...tokenKeys.map((key) => key.algorithm)]);
    const keys = await Promise.all(tokenKeys.map(TokenKey.toJwk));
    const discovery = {
      issuer,
      jwks_uri: `${issuer}${TrustDocuments.keySetPath}`,
      response_types_supported: ["id_token"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: [...algorithms].toSorted(),
    };
    // Published even without keys, because a relying party that gets no set would keep the tainted key.
    const isPublished = store.tokenKeys.some(({ schedule }) => schedule.publishedFrom <= validFrom);
    // Several relying parties skip keys of the use `jwt-svid`.
    const published = { keys: keys.map((key) => ({ ...key, use: "sig" })) };
    return {
      discovery: `${JSON.stringify(discovery)}\n`,
      keySet: isPublished ? `${JSON.stringify(published)}\n` : "",
    };
  },
};

/**
 * How long a cache may keep a document. It eases the load of many relying parties. A key is published for
 * 25 hours before it signs, of which the last hour covers this time.
 */
export const documentMaximumAgeSeconds = 300;

/** What relying parties outside of SPIFFE read to verify JWT-SVIDs. */
interface JwtDocuments {
  readonly discovery: string;
  /** A JWK Set; an empty text before the first key is published. After a taint of the only key it has no keys. */
  readonly keySet: string;
}

/** The path of an issuer's URL, below which its documents are. */
export const issuerPath = ({ issuer }: TokenPolicy): string =>
  new URL(issuer).pathname.replace(/\/$/, "");
