import { FetchError } from "../../foundation/fetch.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { DocumentFollower, type FollowerState } from "../../program/bundle/document-follower.ts";
import { type SpiffeBundle, spiffeBundle } from "../../program/bundle/documents.ts";
import { systemCode } from "../../program/files/small-file.ts";
import { commonOptions, type FollowersOptions } from "./followers.ts";

/** How long a refusal is remembered. Another CA may answer at the address by then. */
const askAgainSeconds = 3_600;

/** The answers of a server that has no bundle. Others may be a proxy's that has only begun. */
const noBundle: readonly number[] = [404, 405, 415];

/** The errors of a connection to a server that speaks HTTP/2 alone. */
const http2Alone = /^HPE_|NO_APPLICATION_PROTOCOL$/;

/** Over TLS, istiod closes a connection without HTTP/2. So does a CA that restarts, but not so often in a row. */
const closuresOfRefusal = 3;

/** The errors of a certificate that none of the roots has issued. */
const unknownRoot = /SELF_SIGNED_CERT|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)|CERT_SIGNATURE_FAILURE/;

/**
 * The published bundle of the agent's own CA. Over native gRPC the agent looks for it at the CA's own address, where
 * Rampart has it and istiod refuses: roots, taints and CRLs are not followed then, and the agent says so.
 */
export class OwnBundle implements FollowerState {
  readonly #options: FollowersOptions;
  readonly #follower: DocumentFollower<SpiffeBundle> | undefined;
  readonly #found = Promise.withResolvers<void>();
  #fault: string | undefined;
  /** Why the CA's certificate is not accepted, while it is below no known root. */
  #strange: string | undefined;
  #closures = 0;

  constructor(options: FollowersOptions) {
    this.#options = options;
    const { bundleUrl, crlUrl, isBundleAssumed } = options.configuration;
    if (bundleUrl !== undefined) this.#follower = this.#createFollower(bundleUrl);
    else if (isBundleAssumed) this.#unfollow("there is no TLS to the CA");
    const isBeside = URL.parse("crl.pem", bundleUrl)?.href === crlUrl;
    if (!isBundleAssumed || !isBeside) this.#found.resolve();
  }

  /** Why roots, taints and CRLs are not followed; `undefined` while they are, or where nobody wants it. */
  get fault(): string | undefined {
    return this.#fault ?? this.#strange;
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

  /** Resolves when the CA is known to publish what is beside its bundle, the CRLs, or when the signal aborts. */
  async found(signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => this.#found.resolve());
    if (!signal.aborted) await this.#found.promise;
  }

  #createFollower(url: string): DocumentFollower<SpiffeBundle> {
    const { configuration, channel, trust, clock } = this.#options;
    const common = commonOptions(url, this.#options);
    return new DocumentFollower({
      ...common,
      kind: spiffeBundle,
      longestWaitSeconds: configuration.longestBundleRefreshSeconds,
      tlsOptions: () => channel.tlsOptions(),
      onDocument: (bundle) => this.#take(bundle),
      onConfirmed: () => {
        this.#strange = undefined;
        trust.confirmBundle();
      },
      failed: (message, error) => {
        if (this.#isRefusal(error)) return this.#unfollow(`${url} has no bundle: ${message}`);
        common.failed(message, error);
        this.#judgeRoots(url, error);
        // Not an istiod: what is beside the bundle may be read meanwhile.
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
    this.#strange = undefined;
    this.#found.resolve();
    return isAccepted;
  }

  /** Whether the server at the CA's own address answered that it has no bundle. One that did have it has a fault. */
  #isRefusal(error: unknown): boolean {
    const isKnown = this.confirmedAt !== undefined;
    if (isKnown || !this.#options.configuration.isBundleAssumed) return false;
    if (!(error instanceof FetchError)) return false;
    const { status = 0 } = error;
    const code = systemCode(error.cause) ?? "";
    this.#closures = code === "ECONNRESET" ? this.#closures + 1 : 0;
    return (
      noBundle.includes(status) || http2Alone.test(code) || this.#closures >= closuresOfRefusal
    );
  }

  /**
   * Says what to do where roots have changed faster than this agent could follow. No answer of such a server counts:
   * it may be a thief's whose root was withdrawn.
   */
  #judgeRoots(url: string, error: unknown): void {
    const { configuration, log } = this.#options;
    const { rootFile } = configuration.ca.files;
    if (rootFile === undefined || !(error instanceof FetchError)) return;
    if (!unknownRoot.test(systemCode(error.cause) ?? "")) return;
    const isNew = this.#strange === undefined;
    this.#strange = `roots, taints and CRLs are not followed: ${url} shows a certificate of no root that this agent knows; if the CA's roots have changed, put today's into ${rootFile}`;
    if (isNew) log.operation({ event: "bundle-unfollowed", level: "error", detail: this.#strange });
  }

  #unfollow(why: string): void {
    const { log, revocation } = this.#options;
    const isNew = this.#fault === undefined;
    this.#fault = `roots, taints and CRLs are not followed: ${why}; set RAMPART_BUNDLE_URL`;
    revocation.noteAnswer();
    if (isNew) log.operation({ event: "bundle-unfollowed", level: "warning", detail: this.#fault });
  }
}
