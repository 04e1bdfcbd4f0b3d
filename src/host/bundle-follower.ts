import type { OperationLog } from "../foundation/event-log.ts";
import { readJson } from "../foundation/json-fetch.ts";
import { parseWaitSeconds } from "../foundation/prefer.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import { fetchTrusting } from "./node-fetch.ts";
import { parsePublishedRoots } from "./published-bundle.ts";
import { readRootFile } from "./root-file.ts";

/** The trust bundle of a CA, as it was last heard. */
export interface BundleFollower {
  /** Nothing until the CA has been heard once. What it has said stays while it is away. */
  readonly current: () => NumberedBundle | undefined;
  /**
   * Asks the CA, which holds its answer until there is another bundle (RFC 7240 §4.3), if it can.
   * Rejects when it does not answer as it should, or with an older bundle.
   *
   * @returns After how many seconds to ask again; nothing where the CA does not hold its answers.
   */
  readonly look: (signal: AbortSignal) => Promise<number | undefined>;
}

const fetchSeconds = 10;

/** As long as a connection may be silent on most ways. */
const longestWaitSeconds = 240;

/** An answer that comes sooner was not held. */
const shortestWaitSeconds = 5;

/** @param rootsFile PEM of the roots of the CA's own certificate, instead of the system's. */
export async function createBundleFollower(
  upstream: string,
  rootsFile: string | undefined,
  { operation }: OperationLog,
  clock: () => Date,
): Promise<BundleFollower> {
  const fetch = fetchTrusting(await readRootFile(rootsFile));
  let bundle: NumberedBundle | undefined;
  let etag: string | null = null;
  let grantedSeconds: number | undefined;

  async function ask(ending: AbortSignal): Promise<Response> {
    // Never for longer than was asked for, whatever is said, and than a timer holds.
    const heldSeconds = etag === null ? 0 : Math.min(grantedSeconds ?? 0, longestWaitSeconds);
    const timeout = AbortSignal.timeout((fetchSeconds + heldSeconds) * 1000);
    const signal = AbortSignal.any([ending, timeout]);
    const headers = {
      prefer: `wait=${longestWaitSeconds}`,
      ...(etag !== null && { "if-none-match": etag }),
    };
    // In trouble the whole bundle is asked for, which is answered at once.
    etag = null;
    return fetch(`${upstream}/bundle.json`, { headers, signal, redirect: "manual" });
  }

  function take(next: NumberedBundle): void {
    if (bundle && next.sequence < bundle.sequence) {
      throw new Error(`the CA answers with bundle ${next.sequence}, older than ${bundle.sequence}`);
    }
    if (next.pem === bundle?.pem) return;
    bundle = next;
    const detail = "the CA publishes another trust bundle";
    operation({ event: "bundle-changed", level: "info", detail, sequence: next.sequence });
  }

  return {
    current: () => bundle,
    look: async (signal) => {
      const before = bundle;
      const begun = clock().getTime();
      const response = await ask(signal);
      const { status, headers } = response;
      if (status === 200) take(parsePublishedRoots(await readJson(response)));
      else await response.body?.cancel();
      if (status !== 200 && !(status === 304 && bundle)) {
        throw new Error(`the CA answers ${status} for its trust bundle`);
      }
      etag = headers.get("etag");
      grantedSeconds = parseWaitSeconds(headers.get("preference-applied"));
      if (etag === null || grantedSeconds === undefined) return undefined;
      const heldSeconds = (clock().getTime() - begun) / 1000;
      const isHeld = heldSeconds >= Math.min(shortestWaitSeconds, grantedSeconds / 2);
      return isHeld || bundle !== before ? 1 : undefined;
    },
  };
}
