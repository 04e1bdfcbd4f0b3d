import type { Context } from "hono";
import type { AuthorityView } from "../../ca/authority-view.ts";
import { parseWaitSeconds } from "../../foundation/http/prefer.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import type { LongPoll, LongPolls } from "./long-poll.ts";

/** A format of the published trust bundle. */
export interface BundleFormat {
  readonly contentType: string;
  /** The body of an answer; empty for an empty bundle. */
  readonly write: (view: AuthorityView) => string | Promise<string>;
}

interface Representation {
  readonly view: AuthorityView;
  readonly body: string;
  readonly etag: string;
}

/** The body of a 503: the trust bundle is empty, or the store cannot be read. */
export const unavailable = "certificate authority is temporarily unavailable\n";

/**
 * An endpoint for the trust bundle in one format, which revalidates by its hash (RFC 9110 §13.1.2). A
 * request with `Prefer: wait` (RFC 7240 §4.3) is a long poll. It gets a changed bundle at once, and 304
 * only at the end of its wait.
 *
 * The endpoint does not publish an empty bundle, which would tell verifiers to trust nobody (SPIFFE Trust
 * Domain and Bundle §4.2).
 */
export function createBundleEndpoint(
  ca: CertificateAuthority,
  longPolls: LongPolls,
  { contentType, write }: BundleFormat,
): (c: Context) => Promise<Response> {
  const { read, readAgain } = createReader(ca, write);
  return async (c) => {
    const seconds = parseWaitSeconds(c.req.header("prefer"));
    const longPoll = longPolls.enter(seconds, ca.clock(), c.req.raw);
    try {
      const ifNoneMatch = c.req.header("if-none-match");
      let current = await read();
      if (longPoll && !mustSend(current, ifNoneMatch)) {
        const hasChanged = async (): Promise<boolean> => {
          const before = current;
          current = await readAgain();
          return current !== before && mustSend(current, ifNoneMatch);
        };
        await longPoll.hold(hasChanged, c.req.raw.signal);
      }
      if (current.body === "") return c.text(unavailable, 503);
      const headers = headersOf(current, longPoll, ca.bundleMaximumAgeSeconds);
      if (!mustSend(current, ifNoneMatch)) return c.body(null, 304, headers);
      return c.body(current.body, 200, { ...headers, "content-type": contentType });
    } finally {
      longPoll?.leave();
    }
  };
}

/** Reads the bundle from the authorities and writes it in its format. */
interface Reader {
  readonly read: () => Promise<Representation>;
  /** For long polls, which share one recent read. */
  readonly readAgain: () => Promise<Representation>;
}

function createReader(ca: CertificateAuthority, write: BundleFormat["write"]): Reader {
  let latest: Representation | undefined;
  let latestRead = 0;
  let reads = 0;
  let readAt = 0;

  async function read(): Promise<Representation> {
    const number = ++reads;
    const now = ca.clock();
    // Set before the read, so that meanwhile the other long polls go on with the latest representation.
    readAt = now.getTime();
    const view = await ca.issuance.authorities.at(now);
    const seen = latest?.view === view ? latest : { view, ...(await tagged(await write(view))) };
    // Reads overlap, and one that began earlier may end later, with an older bundle.
    if (latest && number < latestRead) return latest;
    latest = seen;
    latestRead = number;
    return seen;
  }

  async function readAgain(): Promise<Representation> {
    const age = ca.clock().getTime() - readAt;
    const isRecent = age >= 0 && age < 500 * ca.longPollLimits.readSeconds;
    return latest && isRecent ? latest : read();
  }

  return { read, readAgain };
}

function headersOf(
  { etag }: Representation,
  longPoll: LongPoll | undefined,
  maximumAgeSeconds: number,
): Record<string, string> {
  return {
    etag,
    vary: "Prefer",
    "x-content-type-options": "nosniff",
    // The answer to a long poll belongs to one caller at one time.
    "cache-control": longPoll ? "no-store" : `public, max-age=${maximumAgeSeconds}`,
    ...(longPoll && { "preference-applied": `wait=${longPoll.seconds}` }),
  };
}

/** Whether the caller needs the bundle. A caller that has one is never sent an empty one. */
function mustSend({ body, etag }: Representation, ifNoneMatch: string | undefined): boolean {
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
