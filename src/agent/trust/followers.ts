import type { EventName, OperationLog } from "../../foundation/events.ts";
import { InterruptibleSleep } from "../../foundation/pause.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { crlDocument } from "../../program/bundle/crl-document.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
} from "../../program/bundle/document-follower.ts";
import type { ClientTls } from "../../program/http/http-client.ts";
import type { AgentConfiguration } from "../configuration/configuration.ts";
import type { JwtBundles } from "./jwt-bundles.ts";
import type { Revocation } from "./revocation.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** The dependencies of the followers. */
export interface FollowersOptions {
  readonly configuration: AgentConfiguration;
  /** The connection to the CA. */
  readonly channel: { tlsOptions(): Promise<ClientTls> };
  readonly trust: TrustRoots;
  readonly jwtBundles: JwtBundles;
  readonly revocation: Revocation;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

/** Creates the follower of the CA's CRLs, if their URL is configured. */
export function ownCrlFollower(
  options: FollowersOptions,
): DocumentFollower<readonly Crl[]> | undefined {
  const { configuration, channel, revocation, clock } = options;
  const { crlUrl: url } = configuration;
  if (url === undefined) return undefined;
  const common = commonOptions(url, options, "revocation-lists-unread");
  const sleep = new InterruptibleSleep(clock);
  revocation.awaiting.add(() => sleep.interrupt());
  return new DocumentFollower({
    ...common,
    kind: crlDocument,
    longestWaitSeconds: configuration.longestBundleRefreshSeconds,
    tlsOptions: () => channel.tlsOptions(),
    onDocument: (crls) => revocation.take(crls),
    mayBeAbsent: () => revocation.mayBeAbsent(),
    sleepUntil: (instant, signal) => {
      const soon = new Date(clock().getTime() + 1_000);
      return sleep.until(revocation.isAwaiting && soon < instant ? soon : instant, signal);
    },
    failed: (message, error) => {
      revocation.noteAnswer();
      common.failed(message, error);
    },
  });
}

type Common = "url" | "failed" | "longestRefreshSeconds" | "clock" | "random";

/** The options that all followers share. */
export function commonOptions(
  url: string,
  { configuration, clock, random, log }: FollowersOptions,
  unread: EventName = "bundle-unread",
): Pick<DocumentFollowerOptions<never>, Common> {
  return {
    url,
    failed: (detail) => log.operation({ event: unread, level: "warning", url, detail }),
    longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
    clock,
    random,
  };
}
