import type { X509Certificate } from "node:crypto";
import type { PeerCertificate } from "node:tls";
import { OperatorError } from "../../foundation/errors.ts";
import type { OperationalEvent, OperationLog } from "../../foundation/events.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import { crlDocument } from "../../program/bundle/crl-document.ts";
import {
  DocumentFollower,
  type DocumentFollowerOptions,
  type FollowerState,
} from "../../program/bundle/document-follower.ts";
import {
  bundleDocument,
  parseSpiffeBundle,
  type SpiffeBundle,
} from "../../program/bundle/spiffe-bundle.ts";
import { PemFile } from "../../program/files/pem-file.ts";
import { errorCode, SmallFile } from "../../program/files/small-file.ts";
import type { ClientTls } from "../../program/http/tunnel.ts";
import type { AgentConfiguration, FederatedEndpoint } from "../configuration.ts";
import { FederatedBundles, type JwtBundles } from "./bundles.ts";
import type { Revocation } from "./revocation.ts";
import type { TrustRoots } from "./trust-roots.ts";

/** What the followers of the CA's bundle and CRLs need. */
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
  revocation.awaiting.add(() => follower.pollNow());
  return follower;
}

type Common = "url" | "failed" | "longestRefreshSeconds" | "clock" | "random";

/** The options that all followers of this agent share. Each failure is logged as the event `unread`. */
export function commonOptions(
  url: string,
  { configuration, clock, random, log }: FollowersOptions,
  unread: OperationalEvent["event"] = "bundle-unread",
): Pick<DocumentFollowerOptions<never>, Common> {
  return {
    url,
    failed: (detail) => log.operation({ event: unread, level: "warning", url, detail }),
    longestRefreshSeconds: configuration.longestBundleRefreshSeconds,
    clock,
    random,
  };
}

/** Creates a follower for each federated trust domain. */
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
    ({ trustDomain, url, svid }) =>
      new DocumentFollower({
        ...commonOptions(url, options),
        kind: bundleDocument,
        // No long polling, because each held request would cost a foreign endpoint a connection.
        longestWaitSeconds: 0,
        tlsOptions: () =>
          svid ? spiffeTls(trustDomain, svid, federation) : webTls(configuration.federatedRootFile),
        onDocument: (bundle) => take(trustDomain, bundle),
      }),
  );
}

/** The TLS options of the profile `https_web`: no client certificate, and the name of the host. */
async function webTls(rootFile: string | undefined): Promise<ClientTls> {
  const ca = await PemFile.readRoots(rootFile);
  return ca === undefined ? {} : { ca };
}

/**
 * The TLS options of the profile `https_spiffe`: the last bundle of the trust domain verifies the endpoint, and before
 * the first one, the bundle in the file (SPIFFE Federation §5.2.2).
 *
 * @throws OperatorError for a file without a bundle, and once the trust domain has withdrawn all its roots.
 */
async function spiffeTls(
  trustDomain: TrustDomain,
  { spiffeId, bundleFile }: NonNullable<FederatedEndpoint["svid"]>,
  federation: FederatedBundles,
): Promise<ClientTls> {
  const roots = federation.rootsOf(trustDomain) ?? (await rootsIn(bundleFile, trustDomain));
  if (roots.length === 0) throw new OperatorError(`the last bundle of ${trustDomain} has no root`);
  return {
    ca: roots.join(""),
    checkServerIdentity: (_, shown) =>
      isSvidOf(shown, spiffeId) ? undefined : new Error(`it is not that of ${spiffeId}`),
  };
}

async function rootsIn(
  bundleFile: string,
  trustDomain: TrustDomain,
): Promise<readonly X509Certificate[]> {
  const text = await SmallFile.read(bundleFile, bundleDocument.maximumOctets);
  try {
    const bundle = parseSpiffeBundle(text);
    if (new FederatedBundles().update(trustDomain, bundle) === "taken") return bundle.roots;
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    throw new OperatorError(`${bundleFile} holds no SPIFFE bundle`, { cause: error });
  }
  throw new OperatorError(`${bundleFile} holds a root of another trust domain than ${trustDomain}`);
}

/** Whether a certificate that a root has verified is the X509-SVID of this SPIFFE ID (SPIFFE X509-SVID §5.2). */
function isSvidOf({ subjectaltname = "", ca }: PeerCertificate, spiffeId: string): boolean {
  const [uri, ...others] = subjectaltname.split(", ").filter((name) => !dnsName.test(name));
  return uri === `URI:${spiffeId}` && others.length === 0 && !ca;
}

/** A DNS name in Node's text of a subjectAltName, without quotation marks, which could hide another name. */
const dnsName = /^DNS:[\w.*-]+$/;

/** How soon a server without a bundle is asked again. Another CA may answer at the address by then. */
const askAgainSeconds = 3_600;

/** The statuses that mean that a server has no bundle. Others may come from a proxy that is starting. */
const noBundle: readonly number[] = [404, 405, 415];

/** The error codes of a connection to a server that speaks only HTTP/2. */
const http2Alone = /^HPE_|NO_APPLICATION_PROTOCOL$/;

/**
 * How many closed connections in a row mean that the server is an istiod, which closes TLS connections without
 * HTTP/2. A restarting CA closes fewer.
 */
const closuresOfRefusal = 3;

/** The error codes of a certificate that none of the roots has issued. */
const unknownRoot = /SELF_SIGNED_CERT|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)|CERT_SIGNATURE_FAILURE/;

/**
 * The published bundle of the agent's own CA. Over native gRPC the agent looks for it at the CA's own address, where
 * Rampart publishes it and istiod does not: behind istiod, roots, taints and CRLs are not followed ({@link fault}).
 */
export class OwnBundle implements FollowerState {
  readonly #options: FollowersOptions;
  readonly #follower: DocumentFollower<SpiffeBundle> | undefined;
  readonly #found = Promise.withResolvers<void>();
  #fault: string | undefined;
  /** Why the CA's certificate is refused; set while its chain leads to no root that the agent trusts. */
  #untrusted: string | undefined;
  #closures = 0;

  constructor(options: FollowersOptions) {
    this.#options = options;
    const { bundleUrl, crlUrl, isBundleAssumed } = options.configuration;
    if (bundleUrl !== undefined) this.#follower = this.#createFollower(bundleUrl);
    else if (isBundleAssumed) this.#unfollow("there is no TLS to the CA");
    const isBeside = URL.parse("crl.pem", bundleUrl)?.href === crlUrl;
    if (!isBundleAssumed || !isBeside) this.#found.resolve();
  }

  /**
   * Why roots, taints and CRLs are not followed; `undefined` while they are, or if the configuration turns that off.
   */
  get fault(): string | undefined {
    return this.#fault ?? this.#untrusted ?? this.#outage;
  }

  /** Why the bundle cannot be read; `undefined` if one was confirmed within the last hour. */
  get #outage(): string | undefined {
    const { confirmedAt, lastError } = this;
    if (confirmedAt && addSeconds(confirmedAt, 3_600) > this.#options.clock()) return undefined;
    return lastError && `roots, taints and CRLs are not followed: ${lastError}`;
  }

  get isFollowed(): boolean {
    return this.#follower !== undefined && this.fault === undefined;
  }

  get confirmedAt(): Date | undefined {
    return this.#follower?.confirmedAt;
  }

  get lastError(): string | undefined {
    return this.#follower?.lastError;
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#follower?.run(signal);
  }

  /** Resolves once the CA has proved to be no istiod, so that it may have CRLs beside the bundle, or when the signal aborts. */
  async found(signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.#found.resolve());
    if (!signal.aborted) await this.#found.promise;
  }

  #createFollower(url: string): DocumentFollower<SpiffeBundle> {
    const { configuration, channel, trust, clock } = this.#options;
    const common = commonOptions(url, this.#options);
    return new DocumentFollower({
      ...common,
      kind: bundleDocument,
      longestWaitSeconds: configuration.longestBundleRefreshSeconds,
      tlsOptions: () => channel.tlsOptions(),
      onDocument: (bundle) => this.#take(bundle),
      onConfirmed: () => trust.confirmBundle(),
      failed: (message, error) => {
        if (this.#isRefusal(error)) return this.#unfollow(`${url} has no bundle: ${message}`);
        common.failed(message, error);
        this.#judgeRoots(url, error);
        // An HTTP status shows that the CA is no istiod, so the CRLs beside the bundle may be read meanwhile.
        if (error instanceof FetchError && error.status !== undefined) this.#found.resolve();
      },
      nextPoll: (planned) =>
        this.#fault === undefined ? planned : addSeconds(clock(), askAgainSeconds),
    });
  }

  #take(bundle: SpiffeBundle): boolean {
    const { configuration, trust, jwtBundles, log } = this.#options;
    const outcome = trust.updateFromBundle(bundle);
    const isAccepted = outcome === "changed" || outcome === "unchanged";
    const { sequence, roots, jwtKeys } = bundle;
    if (isAccepted) jwtBundles.update(configuration.trustDomain, jwtKeys);
    const level = isAccepted ? "info" : "error";
    log.operation({ event: "bundle-read", level, outcome, sequence, roots: roots.length });
    this.#fault = undefined;
    this.#untrusted = undefined;
    this.#found.resolve();
    return isAccepted;
  }

  /** Whether the server at the CA's own address has no bundle. If it had one before, the error is a failure instead. */
  #isRefusal(error: unknown): boolean {
    const isKnown = this.confirmedAt !== undefined;
    if (isKnown || !this.#options.configuration.isBundleAssumed) return false;
    if (!(error instanceof FetchError)) return false;
    const { status = 0 } = error;
    const code = errorCode(error.cause) ?? "";
    this.#closures = code === "ECONNRESET" ? this.#closures + 1 : 0;
    return (
      noBundle.includes(status) || http2Alone.test(code) || this.#closures >= closuresOfRefusal
    );
  }

  /**
   * Logs what the operator must do if the server's chain leads to no root that this agent trusts. The agent ignores the
   * server's responses, because the server may hold the stolen key of a root that was withdrawn.
   */
  #judgeRoots(url: string, error: unknown): void {
    const { configuration, log } = this.#options;
    const { rootFile } = configuration.ca.files;
    if (rootFile === undefined || !(error instanceof FetchError)) return;
    if (!unknownRoot.test(errorCode(error.cause) ?? "")) return;
    const isNew = this.#untrusted === undefined;
    this.#untrusted = `roots, taints and CRLs are not followed: ${url} shows a certificate of no root that this agent knows; if the CA's roots have changed, put today's into ${rootFile}`;
    if (isNew)
      log.operation({ event: "bundle-unfollowed", level: "error", detail: this.#untrusted });
  }

  #unfollow(why: string): void {
    const { log, revocation } = this.#options;
    const isNew = this.#fault === undefined;
    this.#fault = `roots, taints and CRLs are not followed: ${why}; set RAMPART_BUNDLE_URL`;
    revocation.noteAnswer();
    if (isNew) log.operation({ event: "bundle-unfollowed", level: "warning", detail: this.#fault });
  }
}
