import type { Hono } from "hono";
import type { CrlSource } from "../../ca/revocation/published-crls.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { LongPolls } from "./long-poll.ts";
import { createPolledEndpoint, type ReadDocument, type Representation } from "./polled-endpoint.ts";

/** DER (RFC 2585 §4.2). */
const derType = "application/pkix-crl";
const pemType = "application/x-pem-file";

/** Endpoints that were asked for and have no document any more are dropped. */
const maximumAuthorities = 100;

/**
 * The CRLs of the authorities whose roots are in the trust bundle: all of them as PEM at `/crl.pem`, each as
 * DER at `/crl/<id of the authority>.crl`.
 *
 * The tags are weak (RFC 9110 §8.8.1): two processes sign the same list with two signatures.
 */
export function addCrlRoutes(
  app: Hono,
  ca: CertificateAuthority,
  crls: CrlSource,
  longPolls: LongPolls,
): void {
  const endpoint = (read: ReadDocument) => createPolledEndpoint(ca, longPolls, kept(read));
  app.get(
    "/crl.pem",
    endpoint(async () => {
      const { pem, digest } = await crls(ca.clock());
      return pem === "" ? undefined : { body: pem, contentType: pemType, etag: weakTag(digest) };
    }),
  );

  const crlOf = async (id: string) =>
    (await crls(ca.clock())).crls.find(({ authority }) => authority === id);
  const endpoints = new Map<string, ReturnType<typeof endpoint>>();
  const endpointOf = (id: string): ReturnType<typeof endpoint> => {
    const known = endpoints.get(id);
    if (known) return known;
    const made = endpoint(async () => {
      const found = await crlOf(id);
      return found && { body: found.der, contentType: derType, etag: weakTag(found.digest) };
    });
    if (endpoints.size >= maximumAuthorities) endpoints.clear();
    endpoints.set(id, made);
    return made;
  };
  app.get("/crl/:file{[0-9a-f]+\\.crl}", async (c) => {
    const id = c.req.param("file").slice(0, -".crl".length);
    return (await crlOf(id)) ? endpointOf(id)(c) : c.notFound();
  });
}

const weakTag = (digest: string): string => `W/"${digest}"`;

/** Gives the same object while the tag is the same, so that long polls see that nothing has changed. */
function kept(read: ReadDocument): ReadDocument {
  let latest: Representation | undefined;
  return async () => {
    const document = await read();
    if (document?.etag !== latest?.etag) latest = document;
    return latest;
  };
}
