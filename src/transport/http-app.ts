import { type Context, Hono } from "hono";
import type { AuthorityView } from "../ca/authority-view.ts";
import { CaError } from "../errors.ts";
import { toHex } from "../pki/bytes.ts";
import { toSpiffeBundle } from "../pki/spiffe-bundle.ts";
import type { CertificateAuthority } from "./certificate-authority.ts";
import { type ClientCertificateOf, createCertificateService } from "./certificate-service.ts";

export const createCertificatePath = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/**
 * Everything that Rampart answers over HTTP: health, readiness, the trust bundle in two formats, and
 * the RPC, which is Connect's alone.
 */
export function createHttpApp(
  ca: CertificateAuthority,
  clientCertificateOf: ClientCertificateOf = () => undefined,
): Hono {
  const app = new Hono();
  const createCertificate = createCertificateService(ca, clientCertificateOf);
  app.all(createCertificatePath, (c) => createCertificate(c.req.raw));
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", async (c) => {
    const readiness = await readinessOf(ca);
    return c.json(readiness, readiness.ready ? 200 : 503, { "cache-control": "no-store" });
  });
  app.get("/bundle.pem", async (c) => {
    const { trustBundle } = await viewOf(ca);
    return published(c, ca, trustBundle.pem, "application/x-pem-file");
  });
  app.get("/bundle.json", async (c) => {
    const { trustBundle, sequence } = await viewOf(ca);
    const bundle = await toSpiffeBundle(trustBundle.roots, sequence, ca.refreshHintSeconds);
    const body = bundle.keys.length > 0 ? `${JSON.stringify(bundle)}\n` : "";
    return published(c, ca, body, "application/json");
  });
  app.notFound((c) => c.text("not found\n", 404));
  app.onError((error, c) => {
    ca.log.operation({ event: "http-fault", level: "error", detail: error.message });
    return c.text(unavailable, 503);
  });
  return app;
}

const unavailable = "certificate authority is temporarily unavailable\n";

async function viewOf(ca: CertificateAuthority): Promise<AuthorityView> {
  return ca.issuance.authorities.at(ca.clock());
}

/** Whether a certificate could be signed now. */
export async function isReady(ca: CertificateAuthority): Promise<boolean> {
  return (await readinessOf(ca)).ready;
}

interface Readiness {
  readonly ready: boolean;
  readonly authority?: string;
  readonly reasons: readonly string[];
}

/** Ready is who could sign now. Reasons may be given even then: a record that does not open is one. */
async function readinessOf(ca: CertificateAuthority): Promise<Readiness> {
  try {
    const { issuer, trustBundle, reasons } = await viewOf(ca);
    const ready = issuer !== undefined && trustBundle.roots.length > 0;
    return { ready, ...(issuer && { authority: issuer.authority.id }), reasons };
  } catch (error) {
    if (error instanceof CaError) return { ready: false, reasons: [error.message] };
    throw error;
  }
}

/**
 * A representation of the trust bundle, revalidated by its hash (RFC 9110 §13.1.2). An empty bundle
 * would tell verifiers to trust nobody (SPIFFE Trust Domain and Bundle §4.2), so it is not published.
 */
async function published(
  c: Context,
  ca: CertificateAuthority,
  body: string,
  contentType: string,
): Promise<Response> {
  if (body === "") return c.text(unavailable, 503);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  const etag = `"${toHex(new Uint8Array(digest, 0, 16))}"`;
  const headers = {
    etag,
    "cache-control": `public, max-age=${ca.bundleMaximumAgeSeconds}`,
    "x-content-type-options": "nosniff",
  };
  if (matches(c.req.header("if-none-match"), etag)) return c.body(null, 304, headers);
  return c.body(body, 200, { ...headers, "content-type": contentType });
}

function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  const candidates = ifNoneMatch?.split(",").map((tag) => tag.trim().replace(/^W\//, "")) ?? [];
  return candidates.includes(etag) || candidates.includes("*");
}
