import type { X509Certificate } from "node:crypto";
import type { EventName, OperationLog } from "../../foundation/events.ts";
import { Subscribers } from "../../foundation/subscribers.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
} from "../../program/bundle/document-follower.ts";
import { crlDocument, type SpiffeBundle, spiffeBundle } from "../../program/bundle/documents.ts";
import { readRootFile } from "../../program/files/pem-file.ts";
import type { ClientTls } from "../../program/http/http-client.ts";
import type { AgentConfiguration } from "../configuration/configuration.ts";
import type { JwtBundles } from "./jwt-bundles.ts";
import type { Revocation } from "./revocation.ts";
import type { TrustRoots } from "./trust-roots.ts";

export interface FollowersOptions {
  readonly configuration: AgentConfiguration;
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
  const follower = new DocumentFollower({
    ...common,
    kind: crlDocument,
    longestWaitSeconds: configuration.longestBundleRefreshSeconds,
    tlsOptions: () => channel.tlsOptions(),
    onDocument: (crls) => revocation.take(crls),
    mayBeAbsent: () => revocation.mayBeAbsent(),
    nextPoll: (planned) =>
      revocation.isAwaiting ? earlier(addSeconds(clock(), 1), planned) : planned,
    failed: (message, error) => {
      revocation.noteAnswer();
      common.failed(message, error);
    },
  });
  revocation.awaiting.add(() => follower.hurry());
  return follower;
}

type Common = "url" | "failed" | "longestRefreshSeconds" | "clock" | "random";

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

/** Creates a follower for each federated trust domain. Its endpoint has a certificate of the Web's PKI. */
export function federatedBundleFollowers(
  options: FollowersOptions & { readonly federation: FederatedBundles },
): readonly DocumentFollower<SpiffeBundle>[] {
  const { configuration, federation, jwtBundles, log } = options;
  const take = (trustDomain: TrustDomain, bundle: SpiffeBundle): boolean => {
    const outcome = federation.update(trustDomain, bundle);
    const isAccepted = outcome === "taken";
    if (isAccepted) jwtBundles.update(trustDomain, bundle.jwtKeys);
    const level = isAccepted ? "info" : "error";
    const { sequence } = bundle;
    log.operation({ event: "federated-bundle-read", level, trustDomain, outcome, sequence });
    return isAccepted;
  };
  return configuration.federation.map(
    ({ trustDomain, url }) =>
      new DocumentFollower({
        ...commonOptions(url, options),
        kind: spiffeBundle,
        // A held request costs a foreign endpoint a connection.
        longestWaitSeconds: 0,
        tlsOptions: () => webTls(configuration.federatedRootFile),
        onDocument: (bundle) => take(trustDomain, bundle),
      }),
  );
}

/** The TLS options of the profile `https_web`: no client certificate, and the name of the host. */
async function webTls(rootFile: string | undefined): Promise<ClientTls> {
  const ca = await readRootFile(rootFile);
  return ca === undefined ? {} : { ca };
}

type FederatedOutcome = "taken" | "sequence-backwards" | "other-trust-domain";

/** The roots of foreign trust domains, each from its own bundle endpoint. */
export class FederatedBundles {
  readonly changes: Subscribers = new Subscribers();
  readonly #bundles = new Map<TrustDomain, SpiffeBundle>();

  get current(): ReadonlyMap<TrustDomain, readonly X509Certificate[]> {
    const entries = [...this.#bundles].map(([domain, { roots }]) => [domain, roots] as const);
    // A bundle without roots withdraws trust in its domain (SPIFFE Trust Domain and Bundle §4.2).
    return new Map(entries.filter(([, roots]) => roots.length > 0));
  }

  /** Takes a bundle, unless it is older than the known one, or has a root of another trust domain. */
  update(trustDomain: TrustDomain, bundle: SpiffeBundle): FederatedOutcome {
    const known = this.#bundles.get(trustDomain);
    if (known && bundle.sequence < known.sequence) return "sequence-backwards";
    if (bundle.roots.some((root) => namesAnotherTrustDomain(root, trustDomain)))
      return "other-trust-domain";
    this.#bundles.set(trustDomain, bundle);
    this.changes.notify();
    return "taken";
  }
}

/** A bundle does not name its trust domain, but a root may by its SPIFFE ID (SPIFFE X509-SVID §3.2). */
function namesAnotherTrustDomain(
  { subjectAltName = "" }: X509Certificate,
  trustDomain: TrustDomain,
): boolean {
  const named = subjectAltName.matchAll(/URI:"?spiffe:\/\/([^/",]*)/gi);
  return [...named].some(([, name = ""]) => name.toLowerCase() !== trustDomain);
}
