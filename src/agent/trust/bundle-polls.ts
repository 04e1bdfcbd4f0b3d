import type { SecureContextOptions } from "node:tls";
import type { OperationLog } from "../../foundation/event-log.ts";
import { readRootFile } from "../../host/root-file.ts";
import type { AgentConfiguration } from "../configuration/configuration.ts";
import type { CaChannel } from "../issuance/ca-channel.ts";
import { BundlePoll } from "./bundle-poll.ts";
import type { FederatedBundles } from "./federated-bundles.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** The dependencies of the polls. */
export interface BundlePollsOptions {
  readonly configuration: AgentConfiguration;
  readonly channel: CaChannel;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

/** Creates the poll of the agent's own bundle, if its URL is configured. */
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

/** Creates a poll for each federated trust domain. Its endpoint has a certificate of the Web's PKI. */
export function federatedBundlePolls(options: BundlePollsOptions): readonly BundlePoll[] {
  const { configuration, federation, log } = options;
  return configuration.federation.map(
    ({ trustDomain, url }) =>
      new BundlePoll({
        ...options,
        url,
        longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
        // A held request costs a foreign endpoint a connection.
        mayWait: false,
        tlsOptions: () => webTls(configuration.federatedRootFile),
        onBundle: (bundle) => {
          const outcome = federation.update(trustDomain, bundle);
          const isAccepted = outcome === "taken";
          const level = isAccepted ? "info" : "error";
          const { sequence } = bundle;
          log.operation({ event: "federated-bundle-read", level, trustDomain, outcome, sequence });
          return isAccepted;
        },
        onConfirmed: () => undefined,
      }),
  );
}

/** The TLS options of the profile `https_web`: no client certificate, and the name of the host. */
async function webTls(rootFile: string | undefined): Promise<SecureContextOptions> {
  const ca = await readRootFile(rootFile);
  return { minVersion: "TLSv1.2", ...(ca !== undefined && { ca }) };
}
