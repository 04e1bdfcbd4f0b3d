import type { Context } from "hono";
import type { AuthorityView } from "../../ca/authority-view.ts";
import { parseWaitSeconds } from "../../foundation/prefer.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { LongPoll, LongPolls } from "./long-poll.ts";

/** A form in which the trust bundle is published. */
export interface BundleFormat {
  readonly contentType: string;
  /** Empty for an empty bundle. */
  readonly write: (view: AuthorityView) => string | Promise<string>;
}

interface Representation {
  readonly view: AuthorityView;
  readonly body: string;
  readonly etag: string;
}

/** What is said where there is nothing to publish, or no reading it. */
export const unavailable = "certificate authority is temporarily unavailable\n";

/**
 * The trust bundle in one format, revalidated by its hash (RFC 9110 §13.1.2). For a caller that
 * prefers to wait (RFC 7240 §4.3), what it has already is confirmed only at the end of the wait, and
 * another bundle sent as soon as there is one.
 *
 * An empty bundle would tell verifiers to trust nobody (SPIFFE Trust Domain and Bundle §4.2), so it
 * is not published.
 */
export function createBundleEndpoint(
  ca: CertificateAuthority,
  waits: LongPolls,
  { contentType, write }: BundleFormat,
): (c: Context) => Promise<Response> {
  const { represent, lookAgain } = createLooks(ca, write);
  return async (c) => {
    const place = waits.enter(parseWaitSeconds(c.req.header("prefer")), ca.clock());
    try {
      const ifNoneMatch = c.req.header("if-none-match");
      let current = await represent();
      if (place && !isNews(current, ifNoneMatch)) {
        const look = async (): Promise<boolean> => {
          const before = current;
          current = await lookAgain();
          return current !== before && isNews(current, ifNoneMatch);
        };
        await place.hold(look, c.req.raw.signal);
      }
      if (current.body === "") return c.text(unavailable, 503);
      const headers = headersOf(current, place, ca.bundleMaximumAgeSeconds);
      if (!isNews(current, ifNoneMatch)) return c.body(null, 304, headers);
      return c.body(current.body, 200, { ...headers, "content-type": contentType });
    } finally {
      place?.leave();
    }
  };
}

interface Looks {
  readonly represent: () => Promise<Representation>;
  /** One look serves everybody who waits. */
  readonly lookAgain: () => Promise<Representation>;
}

function createLooks(ca: CertificateAuthority, write: BundleFormat["write"]): Looks {
  let latest: Representation | undefined;
  let latestLook = 0;
  let looks = 0;
  let lookedAt = 0;

  async function represent(): Promise<Representation> {
    const look = ++looks;
    const now = ca.clock();
    // Set first, so that whoever waits goes on with what there is while one looks.
    lookedAt = now.getTime();
    const view = await ca.issuance.authorities.at(now);
    const seen = latest?.view === view ? latest : { view, ...(await tagged(await write(view))) };
    // Looks overlap, and one that began earlier may end later: it knows less.
    if (latest && look < latestLook) return latest;
    latest = seen;
    latestLook = look;
    return seen;
  }

  async function lookAgain(): Promise<Representation> {
    const age = ca.clock().getTime() - lookedAt;
    const isRecent = age >= 0 && age < 500 * ca.longPollLimits.lookSeconds;
    return latest && isRecent ? latest : represent();
  }

  return { represent, lookAgain };
}

function headersOf(
  { etag }: Representation,
  place: LongPoll | undefined,
  maximumAgeSeconds: number,
): Record<string, string> {
  return {
    etag,
    vary: "Prefer",
    "x-content-type-options": "nosniff",
    // What may have been held was an answer to one caller at one time.
    "cache-control": place ? "no-store" : `public, max-age=${maximumAgeSeconds}`,
    ...(place && { "preference-applied": `wait=${place.seconds}` }),
  };
}

/** Whether it must be sent. Who has a bundle has no use for hearing that there is none just now. */
function isNews({ body, etag }: Representation, ifNoneMatch: string | undefined): boolean {
  return ifNoneMatch === undefined || (body !== "" && !matches(ifNoneMatch, etag));
}

async function tagged(body: string): Promise<Omit<Representation, "view">> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  return { body, etag: `"${toHex(new Uint8Array(digest, 0, 16))}"` };
}

function matches(ifNoneMatch: string, etag: string): boolean {
  const candidates = ifNoneMatch.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return candidates.includes(etag) || candidates.includes("*");
}
