import type { SecureContextOptions } from "node:tls";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { AgentConfiguration } from "../configuration/configuration.ts";
import type { CaChannel } from "../issuance/ca-channel.ts";
import { BundlePoll } from "./bundle-poll.ts";
import type { FederatedBundles } from "./federated-bundles.ts";
import { readRootFile } from "./root-file.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** What is told of the bundles that are looked at. */
export interface BundlePollsOptions {
  readonly configuration: AgentConfiguration;
  readonly channel: CaChannel;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

/** Looks at our own trust domain's bundle, if it is published. */
export function ownBundlePoll(options: BundlePollsOptions): BundlePoll | undefined {
  const { configuration, channel, trust, log } = options;
  const { bundleUrl: url, longestBundleRefreshSeconds: longestRefreshSeconds } = configuration;
  if (url === undefined) return undefined;
  return new BundlePoll({
    ...options,
    url,
    longestRefreshSeconds,
    mayWait: true,
    tlsOptions: () => channel.tlsOptions(),
    onBundle: (bundle) => {
      const outcome = trust.learnBundle(bundle);
      const isTaken = outcome === "changed" || outcome === "unchanged";
      const { sequence, roots } = bundle;
      const level = isTaken ? "info" : "error";
      log.operation({ event: "bundle-read", level, outcome, sequence, roots: roots.length });
      return isTaken;
    },
    onConfirmed: () => trust.confirmBundle(),
  });
}

/** Looks at the bundle of each federated trust domain, for whose endpoint the Web's PKI vouches. */
export function federatedBundlePolls(options: BundlePollsOptions): readonly BundlePoll[] {
  const { configuration, federation, log } = options;
  return configuration.federation.map(
    ({ trustDomain, url }) =>
      new BundlePoll({
        ...options,
        url,
        longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
        // The endpoint of somebody else, who has not been asked whether we may.
        mayWait: false,
        tlsOptions: () => webTls(configuration.federatedRootFile),
        onBundle: (bundle) => {
          const outcome = federation.learn(trustDomain, bundle);
          const isTaken = outcome === "taken";
          const level = isTaken ? "info" : "error";
          const { sequence } = bundle;
          log.operation({ event: "federated-bundle-read", level, trustDomain, outcome, sequence });
          return isTaken;
        },
        onConfirmed: () => undefined,
      }),
  );
}

/** The profile `https_web`: no certificate of ours, and its name as the Web has it. */
async function webTls(rootFile: string | undefined): Promise<SecureContextOptions> {
  const ca = rootFile === undefined ? undefined : await readRootFile(rootFile);
  return { minVersion: "TLSv1.2", ...(ca !== undefined && { ca }) };
}
