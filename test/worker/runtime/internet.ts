import { createReviewingApi } from "../../contract/reviewing-api.ts";

/** The members of a request that both sides of `outboundService` have. */
interface AskedFor {
  readonly url: string;
  readonly method: string;
  text(): Promise<string>;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** A host of the internet. */
export type Host = (request: AskedFor) => Promise<Answer>;

/**
 * A test publishes the keys of the issuer `https://<host>` by a `PUT` to this URL and the host. A `GET`
 * there returns how often they were fetched since.
 */
export const registry = "https://registry.test/";

/** The issuer of one test file alone. All files share this internet. */
export const stormIssuer = "https://storm.test";

/** The URL below which the API servers stand. A `GET` there returns how many reviews they were asked for. */
export const reviewingApi = "https://api.test";

/** The base URL of a CA upstream, which plays Vault's PKI engine and a root Rampart. */
export const upstreamUrl = "https://upstream.test";

/** What a CA upstream does with a request for an intermediate. */
export type UpstreamConduct = "signs" | "signs another key" | "refuses" | "hangs" | "answers HTML";

/** A test sets the conduct of the CA upstream by a `PUT`. A `GET` returns how often it was asked. */
export interface UpstreamOrders {
  readonly conduct: UpstreamConduct;
  /** The instant at the CA that asks, in seconds since 1970. */
  readonly now: number;
}

/** Hosts that never answer. */
const silent: readonly string[] = ["hanging.test", "stalled.test"];

/** The path of an issuer's keys here, and of those of Cloudflare Access. */
const keyPaths: readonly string[] = ["/keys", "/cdn-cgi/access/certs"];

/**
 * The internet as the Worker under test sees it, and nothing else. It has the issuers whose keys a test has
 * published, two that never answer, one that fails, and a CA upstream.
 */
export function createInternet(upstream: Host): Host {
  const api = createReviewingApi();
  const published = new Map<string, { readonly keys: string; fetches: number }>();
  return async (request) => {
    const { host, origin, pathname, href } = new URL(request.url);
    if (silent.includes(host)) return new Promise(() => {});
    if (host === "down.test") return { status: 503, body: "" };
    if (origin === upstreamUrl) return upstream(request);
    if (origin === reviewingApi) {
      if (pathname === "/") return { status: 200, body: `${api.questions()}` };
      return api.answer(pathname, await request.text());
    }
    const name = href.startsWith(registry) ? pathname.slice(1) : host;
    if (name !== host && request.method === "PUT") {
      published.set(name, { keys: await request.text(), fetches: 0 });
      return { status: 204, body: "" };
    }
    const publication = published.get(name);
    if (!publication) return { status: 599, body: "nothing leaves this machine" };
    if (name !== host) return { status: 200, body: `${publication.fetches}` };
    if (!keyPaths.includes(pathname)) return { status: 200, body: discoveryOf(origin) };
    publication.fetches++;
    return { status: 200, body: publication.keys };
  };
}

function discoveryOf(origin: string): string {
  return JSON.stringify({ issuer: origin, jwks_uri: `${origin}/keys` });
}
