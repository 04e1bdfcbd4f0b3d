import type { OperationLog } from "../../foundation/event-log.ts";
import { BundleFollower, type BundleFollowerOptions } from "../../host/bundle/bundle-follower.ts";
import { readRootFile } from "../../host/files/root-file.ts";
import type { ClientTls } from "../../host/http/http-client.ts";
import type { AgentConfiguration } from "../configuration/configuration.ts";
import { InterruptibleSleep } from "../identity/interruptible-sleep.ts";
import type { CaChannel } from "../issuance/ca-channel.ts";
import type { FederatedBundles } from "./federated-bundles.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** The dependencies of the followers. */
export interface BundleFollowersOptions {
  readonly configuration: AgentConfiguration;
  readonly channel: CaChannel;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

/** Creates the follower of the agent's own bundle, if its URL is configured. */
export function ownBundleFollower(options: BundleFollowersOptions): BundleFollower | undefined {
  const { configuration, channel, trust, log } = options;
  const { bundleUrl: url } = configuration;
  if (url === undefined) return undefined;
  return new BundleFollower({
    ...commonOptions(url, options),
    longestWaitSeconds: configuration.longestBundleRefreshSeconds,
    tlsOptions: () => channel.tlsOptions(),
    onBundle: (bundle) => {
      const outcome = trust.updateFromBundle(bundle);
      const isAccepted = outcome === "changed" || outcome === "unchanged";
      const { sequence, roots } = bundle;
      const level = isAccepted ? "info" : "error";
      log.operation({ event: "bundle-read", level, outcome, sequence, roots: roots.length });
      return isAccepted;
    },
    onConfirmed: () => trust.confirmBundle(),
  });
}

/** Creates a follower for each federated trust domain. Its endpoint has a certificate of the Web's PKI. */
export function federatedBundleFollowers(
  options: BundleFollowersOptions,
): readonly BundleFollower[] {
  const { configuration, federation, log } = options;
  return configuration.federation.map(
    ({ trustDomain, url }) =>
      new BundleFollower({
        ...commonOptions(url, options),
        // A held request costs a foreign endpoint a connection.
        longestWaitSeconds: 0,
        tlsOptions: () => webTls(configuration.federatedRootFile),
        onBundle: (bundle) => {
          const outcome = federation.update(trustDomain, bundle);
          const isAccepted = outcome === "taken";
          const level = isAccepted ? "info" : "error";
          const { sequence } = bundle;
          log.operation({ event: "federated-bundle-read", level, trustDomain, outcome, sequence });
          return isAccepted;
        },
      }),
  );
}

type CommonOptions = "url" | "failed" | "longestRefreshSeconds" | "clock" | "random" | "sleepUntil";

function commonOptions(
  url: string,
  { configuration, clock, random, log }: BundleFollowersOptions,
): Pick<BundleFollowerOptions, CommonOptions> {
  const sleep = new InterruptibleSleep(clock);
  return {
    url,
    failed: (detail) => log.operation({ event: "bundle-unread", level: "warning", url, detail }),
    longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
    clock,
    random,
    sleepUntil: (instant, signal) => sleep.until(instant, signal),
  };
}

/** The TLS options of the profile `https_web`: no client certificate, and the name of the host. */
async function webTls(rootFile: string | undefined): Promise<ClientTls> {
  const ca = await readRootFile(rootFile);
  return ca === undefined ? {} : { ca };
}
