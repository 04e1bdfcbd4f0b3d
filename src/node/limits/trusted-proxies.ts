import { CallerAddress } from "../../foundation/shares.ts";
import { Peer } from "../../transport/rpc/rpc.ts";
import { waitBriefly } from "./promise-sharing.ts";

/** The headers of a request, as Node gives them. */
export type ArrivedHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Authenticates a credential. @returns The name of its listed gateway; `undefined` if it belongs to none. */
export type AuthenticateGateway = (authorization: string) => Promise<string | undefined>;

/** The cached outcome of the authentication of a credential. */
interface Verdict {
  readonly proxy: string | undefined;
  readonly renewAt: number;
  readonly until: number;
}

/** After how many milliseconds a gateway's credential is authenticated again, while it stays trusted. */
const renewal = 30_000;
const memory = { gateway: 60_000, other: 5_000 };

/** The most cached credentials of one gateway, whose pods each have one, and of all callers that are no gateway. */
const maximumOfProxy = 64;

/** Longer than an IPv6 address with its zone. */
const longestAddress = 64;

/** Longer credentials are ignored: a token is shorter by far, and any caller can send a long one. */
const maximumLength = 4096;

/**
 * The gateways that forward calls, which are trusted to name the address of their caller. A call through one is counted
 * to the caller's address, and all calls through one gateway are one network. To be trusted, a peer needs a credential
 * that the CA accepts from a listed gateway. Outcomes are cached: 60 seconds for a gateway, five for others.
 */
export class TrustedProxies {
  readonly #authenticate: AuthenticateGateway;
  readonly #clock: () => number;
  readonly #verdicts = new Map<string, Verdict>();
  readonly #judging = new Set<string>();

  /** @param clock Monotonic, in milliseconds. */
  constructor(prove: AuthenticateGateway, clock: () => number) {
    this.#authenticate = prove;
    this.#clock = clock;
  }

  /**
   * Finds the gateway that forwarded a request, and the address to which the request is counted, in the cache alone.
   * @returns `undefined` also for a gateway whose credential has not been authenticated yet.
   */
  proxyOf(
    headers: ArrivedHeaders,
  ): { readonly proxy: string; readonly address: string } | undefined {
    const proxy = this.#verdictOn(credentialIn(headers))?.proxy;
    if (proxy === undefined) return undefined;
    const forwarded = headers[Peer.forwardedHeader];
    const isAddress = typeof forwarded === "string" && forwarded.length <= longestAddress;
    const caller = isAddress ? CallerAddress.of(forwarded) : "";
    return { proxy: proxy, address: CallerAddress.behind(proxy, caller) };
  }

  /**
   * Returns the work that authenticates the credential of a request, to be done in the request's turn; `undefined` for a
   * request without a credential, while the credential is being authenticated, and for a recent outcome.
   */
  authenticationOf(headers: ArrivedHeaders): (() => Promise<void>) | undefined {
    const credential = credentialIn(headers);
    if (credential === undefined || this.#judging.has(credential)) return undefined;
    const verdict = this.#verdictOn(credential);
    if (verdict && this.#clock() < verdict.renewAt) return undefined;
    // Waits only briefly, because the credential's issuer may be slow, and the request may not be a gateway's.
    return () => waitBriefly(this.#judge(credential));
  }

  #verdictOn(credential: string | undefined): Verdict | undefined {
    const verdict = credential === undefined ? undefined : this.#verdicts.get(credential);
    return verdict && this.#clock() < verdict.until ? verdict : undefined;
  }

  async #judge(credential: string): Promise<void> {
    if (this.#judging.has(credential)) return;
    this.#judging.add(credential);
    try {
      this.#remember(credential, await this.#authenticate(credential));
    } finally {
      this.#judging.delete(credential);
    }
  }

  #remember(credential: string, proxy: string | undefined): void {
    const now = this.#clock();
    const lasts = proxy === undefined ? memory.other : memory.gateway;
    this.#verdicts.delete(credential);
    const same = [...this.#verdicts].filter(([, verdict]) => verdict.proxy === proxy);
    // A full cache evicts only credentials of the same gateway, so that no caller evicts another gateway's.
    const [oldest] = same.length < maximumOfProxy ? [] : same;
    if (oldest) this.#verdicts.delete(oldest[0]);
    const renewAt = now + Math.min(lasts, renewal);
    this.#verdicts.set(credential, { proxy: proxy, renewAt, until: now + lasts });
  }
}

function credentialIn({ [Peer.gatewayHeader]: credential }: ArrivedHeaders): string | undefined {
  const isOne = typeof credential === "string" && credential.length <= maximumLength;
  return isOne ? credential : undefined;
}
