import { pause as pauseOnTimer } from "../../foundation/work/pause.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
} from "../../program/bundle/document-follower.ts";
import { readRootFile } from "../../program/files/root-file.ts";
import type { UpstreamPlace } from "../files/upstream-place.ts";
import type { ServerContext } from "../server.ts";

/** The longest time between two requests to a CA that does not hold its answers. */
const longestRefreshSeconds = 30;

/** The longest time that a CA is asked to hold its answer. */
const longestWaitSeconds = 300;

/** A document of a CA, and what becomes of its answers. */
export interface UpstreamDocument<Document>
  extends Pick<
    DocumentFollowerOptions<Document>,
    "kind" | "onDocument" | "mayBeAbsent" | "failed"
  > {
  /** Of its URL, with a slash in front. */
  readonly path: string;
}

/** The TLS options for a CA. @throws OperatorError when the roots of its certificate cannot be read. */
export async function tlsOptionsFor({
  upstreamRootsFile,
}: UpstreamPlace): Promise<{ ca?: string }> {
  const ca = await readRootFile(upstreamRootsFile);
  return ca === undefined ? {} : { ca };
}

/** Follows a document of a CA. @returns A function that ends it. */
export function followUpstream<Document>(
  source: UpstreamPlace,
  { path, ...document }: UpstreamDocument<Document>,
  { clock, pause = pauseOnTimer, random = Math.random }: ServerContext,
): () => Promise<void> {
  const ending = new AbortController();
  const follower = new DocumentFollower({
    ...document,
    url: `${source.upstream}${path}`,
    tlsOptions: () => tlsOptionsFor(source),
    ...{ longestRefreshSeconds, longestWaitSeconds, clock, random },
    sleepUntil: (instant, signal) => pause(instant.getTime() - clock().getTime(), signal),
  });
  const running = follower.run(ending.signal);
  return () => {
    ending.abort();
    return running;
  };
}
