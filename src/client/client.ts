import { isSafeToFetch } from "../foundation/addresses.ts";
import type { Fetch } from "../foundation/fetch.ts";
import { pause } from "../foundation/pause.ts";
import { ServiceAccount, SpiffeId, TrustDomain } from "../pki/spiffe-id.ts";
import { createCaCalls } from "./internal/ca-calls.ts";
import { ClientError, type ClientFault, rejectResponse } from "./internal/client-error.ts";
import { claimsOf, holdTokens, type JwtSvid, readJwtSvid } from "./internal/jwt-svid.ts";
import {
  type ClientPorts,
  type RenewalOptions,
  type RenewingIdentity,
  renewIdentity,
} from "./internal/renewing-identity.ts";
import { type GitHubJob, tokenFrom } from "./internal/token-from.ts";
import type { TrustBundle } from "./internal/trust-bundle.ts";
import { createRequest, readSvid, type X509Svid } from "./internal/x509-svid.ts";

export type {
  ClientFault,
  ClientPorts,
  Fetch,
  GitHubJob,
  JwtSvid,
  RenewalOptions,
  RenewingIdentity,
  TrustBundle,
  X509Svid,
};
export { ClientError, tokenFrom };

/** Which CA a program calls, and as whom. */
export interface ClientOptions {
  /** The address of the CA: `https:`, or `http:` on this machine. Its certificate is verified like a website's. */
  readonly url: string;
  /**
   * Reads the credential of the workload, such as the token of its ServiceAccount. It is called for each call to the
   * CA.
   */
  readonly token: () => string | Promise<string>;
  readonly trustDomain: string;
  /**
   * The SPIFFE ID that every certificate and token must have. By default that of the ServiceAccount in the token's
   * `sub`; if `sub` names none, any workload of the trust domain.
   */
  readonly spiffeId?: string;
  /** The lifetime to request. By default, the CA chooses. */
  readonly lifetimeSeconds?: number;
  /** Whether keys can be exported, as `node:tls` needs them. By default they cannot. */
  readonly extractableKeys?: boolean;
  /** Replaces the platform's fetch, for a proxy, other roots, or a Worker's service binding. */
  readonly fetch?: Fetch;
}

const platform: ClientPorts = { clock: () => new Date(), random: Math.random, pause };
const platformFetch: Fetch = (url, init) => globalThis.fetch(url, init);

/**
 * Gets certificates and tokens for one workload. Its methods throw {@link ClientError}, and whatever
 * {@link ClientOptions.token} throws.
 */
export interface Client {
  /** Gets an X509-SVID for a new key, and the trust bundle, which must verify it. */
  issue(): Promise<X509Svid>;
  /** Gets an X509-SVID and renews it before it expires. Without `onChange`, it makes no request before `current()`. */
  renew(options?: RenewalOptions): RenewingIdentity;
  /** Gets a JWT-SVID; the same one until half of its life is over, and longer while the CA is unavailable. */
  fetchJwtSvid(audiences: readonly string[]): Promise<JwtSvid>;
  /** Gets the trust bundle, each time from the CA and without a token. */
  bundle(): Promise<TrustBundle>;
}

/**
 * Creates a client that obtains certificates and tokens from a CA. It makes no request before it is used.
 * @throws TypeError for a URL to which no token may be sent, and for a malformed trust domain.
 */
export function createClient(options: ClientOptions, ports: ClientPorts = platform): Client {
  const { fetch = platformFetch, token, extractableKeys = false, lifetimeSeconds = 0 } = options;
  const trustDomain = TrustDomain.parse(options.trustDomain);
  if (!isSafeToFetch(options.url)) throw new TypeError("a client needs an https URL");
  if (!trustDomain)
    throw new TypeError("a client needs the name of a trust domain, in lower-case letters");
  const calls = createCaCalls({ ...ports, fetch, token, url: options.url.replace(/\/+$/, "") });

  const requireSpiffeId = (spiffeId: string, credential: string): void => {
    const account = ServiceAccount.parseUser(`${claimsOf(credential)["sub"]}`);
    const ofAccount = account && SpiffeId.ofWorkload(trustDomain, account);
    const isExpected = spiffeId === (options.spiffeId ?? ofAccount ?? spiffeId);
    if (isExpected && SpiffeId.parseWorkload(spiffeId)?.trustDomain === trustDomain) return;
    rejectResponse("the answer is for another SPIFFE ID");
  };

  async function issue(): Promise<X509Svid> {
    const { keys, csr } = await createRequest(extractableKeys);
    const request = { csr, validityDuration: BigInt(lifetimeSeconds) };
    const { answer, token } = await calls.call(({ certificates }, sending) =>
      certificates.createCertificate(request, sending),
    );
    // Read after the certificate, because an earlier bundle might lack a root that has just begun to sign.
    const trustBundle = await calls.bundle();
    const svid = await readSvid(answer.certChain, keys, trustBundle, ports.clock());
    requireSpiffeId(svid.spiffeId, token);
    return svid;
  }

  async function requestToken(audiences: string[]): Promise<JwtSvid> {
    const { answer, token } = await calls.call(({ tokens }, sending) =>
      tokens.createJwtSvid({ audiences }, sending),
    );
    const svid = readJwtSvid(answer.token, audiences, ports.clock());
    requireSpiffeId(svid.spiffeId, token);
    return svid;
  }

  const { bundle } = calls;
  const renew = (renewal: RenewalOptions = {}) =>
    renewIdentity({ ...ports, issue, bundle }, renewal);
  return { issue, renew, fetchJwtSvid: holdTokens(requestToken, ports.clock), bundle };
}
