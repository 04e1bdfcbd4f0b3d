import { OperationLog } from "../../foundation/events.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import type { KeySet } from "../../pki/jose/key-set.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
} from "../../program/bundle/document-follower.ts";
import { bundleDocument, SpiffeBundle } from "../../program/bundle/spiffe-bundle.ts";
import type { UpstreamPlace } from "../files/places.ts";
import type { ServerContext } from "../server.ts";
import { ServerRoots } from "./server-roots.ts";

/** The default of SPIFFE Trust Domain and Bundle. */
const usualRefreshSeconds = 300;
const noKeys: KeySet = [];

/** Follows the bundle of a CA until `end`. It logs and refuses a bundle that has no root, or is older than the last. */
export class UpstreamBundle {
  readonly source: UpstreamPlace;
  /** The roots that verify the CA's server. */
  readonly serverRoots: ServerRoots;
  readonly #log: OperationLog;
  readonly #following: ReturnType<typeof followUpstream>;
  #latest: SpiffeBundle | undefined;
  #current: NumberedBundle | undefined;

  private constructor(
    source: UpstreamPlace,
    context: ServerContext,
    known: SpiffeBundle | undefined,
    serverRoots: ServerRoots,
  ) {
    this.source = source;
    this.serverRoots = serverRoots;
    this.#log = context.log;
    this.#latest = known;
    this.#current = known && numberedBundle(known);
    const document = {
      path: "/bundle.json",
      kind: bundleDocument,
      onDocument: (bundle: SpiffeBundle) => this.#accept(bundle),
      failed: (message: string) => this.#failed(message),
    };
    this.#following = followUpstream(source, { ...document, serverRoots }, context);
  }

  /**
   * Begins to follow a CA. @param known The bundle of a former follower of it.
   * @param former The roots with which it verified the CA.
   * @throws OperatorError when the roots of the CA's certificate cannot be read.
   */
  static async follow(
    source: UpstreamPlace,
    context: ServerContext,
    known?: SpiffeBundle,
    former?: ServerRoots,
  ): Promise<UpstreamBundle> {
    const serverRoots = new ServerRoots(source, context.log, former);
    await serverRoots.read();
    return new UpstreamBundle(source, context, known, serverRoots);
  }

  /** PEM and sequence; `undefined` until the CA has answered once. They stay while the CA is unreachable. */
  readonly current = (): NumberedBundle | undefined => this.#current;

  /** The same bundle, parsed. */
  readonly latest = (): SpiffeBundle | undefined => this.#latest;

  /** The keys for JWT-SVIDs in the same bundle. */
  readonly jwtKeys = (): KeySet => this.#latest?.jwtKeys ?? noKeys;

  /** The refresh hint of the bundle. */
  readonly refreshSeconds = (): number => this.#latest?.refreshSeconds ?? usualRefreshSeconds;

  /** Why the bundle may be outdated: at most one sentence. */
  readonly faults = (): readonly string[] => {
    const { lastError } = this.#following.follower;
    return lastError === undefined ? [] : [lastError];
  };

  /** Resolves after the first answer or failure. */
  get asked(): Promise<void> {
    return this.#following.follower.asked;
  }

  readonly end = async (): Promise<void> => {
    await this.#following.end();
    await this.serverRoots.kept();
  };

  #accept(published: SpiffeBundle): boolean {
    const bundle = SpiffeBundle.ownAfter(this.#latest, published);
    if (typeof bundle === "string") {
      const { sequence } = published;
      const older = `the CA publishes bundle ${sequence}, older than ${this.#latest?.sequence}`;
      this.#failed(bundle === "empty" ? "the CA publishes a trust bundle without a root" : older);
      return false;
    }
    const next = numberedBundle(bundle);
    logChange(this.#log, next, this.#current);
    this.#latest = bundle;
    this.#current = next;
    this.serverRoots.learn(bundle.roots);
    return true;
  }

  #failed(message: string): void {
    OperationLog.logFault(this.#log, "bundle-not-fetched", new Error(message));
  }
}

function logChange(
  { operation }: OperationLog,
  { pem, sequence }: NumberedBundle,
  before: NumberedBundle | undefined,
): void {
  if (pem === before?.pem) return;
  const detail = "the CA publishes another trust bundle";
  operation({ event: "bundle-changed", level: "info", detail, sequence });
}

function numberedBundle({ sequence, roots }: SpiffeBundle): NumberedBundle {
  return { sequence, pem: roots.map(({ raw }) => Pem.format("CERTIFICATE", raw)).join("") };
}

/** The longest time between two requests to a CA without long polling. */
const longestRefreshSeconds = 30;

/** The longest time that a CA is asked to hold its answer. */
const longestWaitSeconds = 300;

/** A document that a program follows at the CA. */
export interface UpstreamDocument<Document>
  extends Pick<
    DocumentFollowerOptions<Document>,
    "kind" | "onDocument" | "mayBeAbsent" | "nextPoll" | "failed"
  > {
  /** The path of its URL, with a slash in front. */
  readonly path: string;
  readonly serverRoots: ServerRoots;
}

/** Follows a document of a CA from now on, until `end`. */
export function followUpstream<Document>(
  source: UpstreamPlace,
  { path, serverRoots, ...document }: UpstreamDocument<Document>,
  { clock, pause, random = Math.random }: ServerContext,
) {
  const ending = new AbortController();
  const follower = new DocumentFollower({
    ...document,
    url: `${source.upstream}${path}`,
    tlsOptions: async () => {
      const ca = await serverRoots.read();
      return ca === undefined ? {} : { ca };
    },
    longestRefreshSeconds,
    longestWaitSeconds,
    clock,
    random,
    pause,
  });
  const running = follower.run(ending.signal);
  return {
    follower,
    end: (): Promise<void> => {
      ending.abort();
      return running;
    },
  };
}
