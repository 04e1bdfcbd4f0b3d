import { readJson } from "../authn/json-fetch.ts";
import type { EventLog } from "../ca/audit-event.ts";
import type { NumberedBundle } from "../ca/root-config-map.ts";
import { clusterFetch } from "./cluster-fetch.ts";
import { parsePublishedBundle } from "./published-bundle.ts";
import { readRootFile } from "./root-file.ts";

/** The trust bundle of a CA, as it was last heard. */
export interface BundleFollower {
  /** Nothing until the CA has been heard once. What it has said stays while it is away. */
  readonly current: () => NumberedBundle | undefined;
  /** Asks the CA. Rejects when it does not answer as it should, or with an older bundle. */
  readonly look: (signal: AbortSignal) => Promise<void>;
}

const fetchMilliseconds = 10_000;

/** @param rootsFile PEM of the roots of the CA's own certificate, instead of the system's. */
export async function createBundleFollower(
  upstream: string,
  rootsFile: string | undefined,
  { operation }: EventLog,
): Promise<BundleFollower> {
  const fetch = clusterFetch(await readRootFile(rootsFile));
  let bundle: NumberedBundle | undefined;

  async function fetchBundle(ending: AbortSignal): Promise<NumberedBundle> {
    const signal = AbortSignal.any([ending, AbortSignal.timeout(fetchMilliseconds)]);
    const response = await fetch(`${upstream}/bundle.json`, { signal, redirect: "manual" });
    if (response.status === 200) return parsePublishedBundle(await readJson(response));
    await response.body?.cancel();
    throw new Error(`the CA answers ${response.status} for its trust bundle`);
  }

  return {
    current: () => bundle,
    look: async (signal) => {
      const next = await fetchBundle(signal);
      if (bundle && next.sequence < bundle.sequence) {
        throw new Error(
          `the CA answers with bundle ${next.sequence}, older than ${bundle.sequence}`,
        );
      }
      if (next.pem === bundle?.pem) return;
      bundle = next;
      const detail = "the CA publishes another trust bundle";
      operation({ event: "bundle-changed", level: "info", detail, sequence: next.sequence });
    },
  };
}
