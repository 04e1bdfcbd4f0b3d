import { BundlePoll } from "./bundle-poll.ts";
import type { CaChannel } from "./ca-channel.ts";
import type { AgentConfiguration } from "./configuration.ts";
import type { Clock, EventLog } from "./event-log.ts";
import type { FederatedBundles } from "./federated-bundles.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** What is told of the bundles that are looked at. */
export interface BundlePollsOptions {
  readonly configuration: AgentConfiguration;
  readonly channel: CaChannel;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: EventLog;
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
    tlsOptions: () => channel.tlsOptions(),
    onBundle: (bundle) => {
      const outcome = trust.learnBundle(bundle);
      const level = outcome === "changed" || outcome === "unchanged" ? "info" : "error";
      const { sequence, roots } = bundle;
      log({ event: "bundle-read", level, outcome, sequence, roots: roots.length });
    },
    onConfirmed: () => trust.confirmBundle(),
  });
}

/** Looks at the bundle of each federated trust domain, which the Web's PKI vouches for. */
export function federatedBundlePolls(options: BundlePollsOptions): readonly BundlePoll[] {
  const { configuration, federation, log } = options;
  return configuration.federation.map(
    ({ trustDomain, url }) =>
      new BundlePoll({
        ...options,
        url,
        longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
        tlsOptions: async () => ({}),
        onBundle: (bundle) => {
          const outcome = federation.learn(trustDomain, bundle) ? "taken" : "sequence-backwards";
          const level = outcome === "taken" ? "info" : "error";
          log({ event: "federated-bundle-read", level, trustDomain, outcome });
        },
        onConfirmed: () => undefined,
      }),
  );
}
