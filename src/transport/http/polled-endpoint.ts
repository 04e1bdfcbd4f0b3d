import type { Context } from "hono";
import { parseWaitSeconds } from "../../foundation/headers.ts";
import { type Bytes, Hex } from "../../pki/encoding/bytes.ts";
import type { CertificateAuthority } from "../certificate-authority.ts";
import { retrySoon, unavailableSentence } from "../rpc/connect-error.ts";
import type { LongPoll, LongPolls } from "./long-poll.ts";
import { SharedOctets } from "./shared-octets.ts";

/** A document in its current state. */
export interface Representation {
  readonly body: Bytes;
  readonly contentType: string;
  /** An entity tag (RFC 9110 §8.8.3), strong or weak. */
  readonly etag: string;
}

/** Endpoints whose documents callers poll. */
export const PolledEndpoint = {
  /** A text as a document that is tagged by its hash; `undefined` for an empty text. */
  async representationOf(text: string, contentType: string): Promise<Representation | undefined> {
    const body = new TextEncoder().encode(text);
    if (body.length === 0) return undefined;
    const digest = await crypto.subtle.digest("SHA-256", body);
    return { body, contentType, etag: `"${Hex.format(new Uint8Array(digest, 0, 16))}"` };
  },

  /** The answer while there is nothing to publish, or the store cannot be read. */
  unavailable(now: Date): Response {
    const headers = { ...retrySoon(now), "content-type": "text/plain; charset=UTF-8" };
    return new Response(`${unavailableSentence}\n`, { status: 503, headers });
  },

  /**
   * An endpoint for a document, which revalidates by its entity tag (RFC 9110 §13.1.2). A request with
   * `Prefer: wait` (RFC 7240 §4.3) is a long poll. It gets a changed document at once, and 304 only at the
   * end of its wait. Without a document, the answer is 503.
   */
  create<Content extends object>(
    ca: Publisher,
    longPolls: LongPolls,
    document: PolledDocument<Content>,
  ): (c: Context) => Promise<Response> {
    const { read, readAgain } = createReader(ca, document);
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
        if (!current) return PolledEndpoint.unavailable(ca.clock());
        const age = document.maximumAgeSeconds ?? ca.bundleMaximumAgeSeconds;
        const headers = headersOf(current, longPoll, age);
        if (!mustSend(current, ifNoneMatch)) return c.body(null, 304, headers);
        const fields = { ...headers, "content-type": current.contentType };
        return SharedOctets.share(current.body, { headers: fields });
      } finally {
        longPoll?.leave();
      }
    };
  },
};

/** What publishes documents. */
export type Publisher = Pick<
  CertificateAuthority,
  "clock" | "longPollLimits" | "bundleMaximumAgeSeconds"
>;

/** What a document is made of, and how it is written. Neither gives anything while there is nothing to publish. */
export interface PolledDocument<Content extends object> {
  /** Resolves to the same object while nothing has changed. */
  readonly read: () => Promise<Content | undefined>;
  /** Runs again only for another object, and where reads overlap. */
  readonly write: (content: Content) => MaybeDocument | Promise<MaybeDocument>;
  /** How long a cache may keep the document; by default as long as the bundle. */
  readonly maximumAgeSeconds?: number | undefined;
}

type MaybeDocument = Representation | undefined;

function createReader<Content extends object>(
  ca: Publisher,
  { read: readContent, write }: PolledDocument<Content>,
) {
  let latest: { content: Content | undefined; document: MaybeDocument; read: number } | undefined;
  let reads = 0;
  let readAt = 0;

  async function read(): Promise<MaybeDocument> {
    const number = ++reads;
    // Set before the read, so that other long polls use the latest document meanwhile.
    readAt = ca.clock().getTime();
    const content = await readContent();
    const isSame = latest?.content === content;
    const document = content && (isSame ? latest?.document : await write(content));
    // Reads overlap, and one that began earlier may end later, with an older document.
    if (!latest || latest.read < number) latest = { content, document, read: number };
    return latest.document;
  }

  /** Reads the document for long polls, which share one recent read. */
  async function readAgain(): Promise<MaybeDocument> {
    const age = ca.clock().getTime() - readAt;
    const isRecent = age >= 0 && age < 500 * ca.longPollLimits.readSeconds;
    return latest && isRecent ? latest.document : read();
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

/** Whether to answer with the current state. If there is no document, a long poll of a caller that has one waits on. */
function mustSend(current: Representation | undefined, ifNoneMatch: string | undefined): boolean {
  return (
    ifNoneMatch === undefined || (current !== undefined && !matches(ifNoneMatch, current.etag))
  );
}

/** Whether `If-None-Match` names the tag, by the weak comparison of RFC 9110 §8.8.3.2. */
function matches(ifNoneMatch: string, etag: string): boolean {
  const opaque = (tag: string): string => tag.trim().replace(/^W\//, "");
  const candidates = ifNoneMatch.split(",").map(opaque);
  return candidates.includes(opaque(etag)) || candidates.includes("*");
}
