import { certificateFirst } from "../authn/certificate/certificate-first.ts";
import {
  createCertificateAuthenticator,
  createCertificateVerifier,
  type IsRevoked,
  type VouchingAuthorities,
} from "../authn/certificate/certificate-verifier.ts";
import { acceptingForwardedCertificates } from "../authn/certificate/forwarded-certificate.ts";
import type { IssuerKeys } from "../authn/token/issuer-keys.ts";
import { createTokenAuthenticator } from "../authn/token/token-authenticator.ts";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import {
  type Authorities,
  type AuthoritiesConfiguration,
  createAuthorities,
  longestRefreshSeconds,
} from "../ca/authorities.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import { createIdentityPolicy } from "../ca/issuance/identity-policy.ts";
import type { IssuanceLog } from "../ca/issuance/issuance-log.ts";
import type { Quotas } from "../ca/issuance/quotas.ts";
import { uniteBundles } from "../ca/issuance/signers.ts";
import type { Mint } from "../ca/mint.ts";
import { createCrlSource } from "../ca/revocation/published-crls.ts";
import { revocationOf } from "../ca/revocation/revoked.ts";
import type { Configuration } from "../config/configuration.ts";
import { accessKeysUrl } from "../config/console-keys.ts";
import type { AuthorityStore } from "../custody/authority-store.ts";
import type { RevocationContent } from "../custody/revocation-statement.ts";
import type { Fetching } from "../foundation/http/json-fetch.ts";
import { pollForWork } from "../foundation/work/polled-work.ts";
import type { WorkSharing } from "../foundation/work/shared-work.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import type { PublishedLog } from "../transport/http/log-routes.ts";
import { openKeks } from "./keks.ts";
import { namedSigners } from "./named-signers.ts";
import { type ClusterPlatform, operatorKeys, trustedIssuers } from "./trusted-issuers.ts";
import { upstreamOf } from "./upstream.ts";

/** The means of a platform that a CA is composed of. */
export interface Platform extends Omit<ClusterPlatform, "shareWork"> {
  readonly store: AuthorityStore;
  /** A store for the records of each named signer, apart from all others. */
  readonly signerStore?: (signer: string) => AuthorityStore;
  readonly clock: () => Date;
  /** The longest time between two reads of the store, for platforms where a read costs little. */
  readonly longestRefreshSeconds?: number;
  /** Absent on platforms whose requests may not await each other's promises. */
  readonly shareWork?: WorkSharing;
  /** For programs that authenticate nobody and may still ask a CA upstream. */
  readonly fetchingUpstream?: Fetching;
  /** Absent where no caller asks. */
  readonly quotas?: Quotas;
  /** Absent where nothing is logged. */
  readonly issuanceLog?: IssuanceLog | undefined;
  readonly publishedLog?: PublishedLog | undefined;
}

/** A configured CA: the part that answers requests, and the mints that the cron rotates. */
export interface Composition {
  readonly certificateAuthority: CertificateAuthority;
  readonly mint: Mint;
  /** The mints of the named signers, by name. */
  readonly signerMints: ReadonlyMap<string, Mint>;
  readonly issuers: readonly TrustedIssuer[];
  /** The keys of Cloudflare Access, where the console takes its tokens. */
  readonly accessKeys: IssuerKeys | undefined;
}

/** `spiffe_refresh_hint` (SPIFFE Trust Domain and Bundle §4.1.2): followers know a root long before it signs. */
const refreshHintSeconds = 300;

/** Bounds of the time between two reads of the bundle by a long poll; a read takes microseconds. */
const shortestReadSeconds = 0.25;
const longestReadSeconds = 5;

/**
 * Builds the CA of a configuration on a platform: the one place where the layers meet.
 *
 * @throws ConfigurationError for access to a cluster that this platform cannot have.
 */
export async function compose(
  configuration: Configuration,
  platform: Platform,
): Promise<Composition> {
  const { log, clock, cryptoProvider } = platform;
  const { trustDomain, leafLifetimes } = configuration;
  const { propagationSeconds } = configuration.phaseLengths;
  const mints = await createMints(configuration, platform);
  const { shareWork = pollForWork(clock) } = platform;
  const issuers = trustedIssuers(configuration, { ...platform, shareWork });
  const refreshSeconds = Math.min(
    platform.longestRefreshSeconds ?? longestRefreshSeconds,
    // A quarter, so that a slow read ends while the loaded authorities still serve.
    propagationSeconds / 4,
  );
  const freshness = { refreshSeconds, surviveOutageSeconds: propagationSeconds, shareWork };
  const { own, named } = authoritiesOf(mints, freshness);
  const verify = createCertificateVerifier({
    trustDomain,
    vouchingAt: vouchingIn(own),
    isRevoked: revokedIn(own, configuration.configuredRevocations),
    issuers,
    cryptoProvider,
  });
  const certificateAuthority: CertificateAuthority = {
    authenticate: acceptingForwardedCertificates(
      { trustDomain, verify },
      certificateFirst(
        createCertificateAuthenticator(verify),
        createTokenAuthenticator(trustDomain, issuers),
      ),
    ),
    issuance: {
      authorities: own,
      identityPolicy: createIdentityPolicy(trustDomain),
      signers: namedSigners(configuration.signers, named),
      configuredDenials: configuration.configuredDenials,
      leafLifetimes,
      cryptoProvider,
      quotas: platform.quotas,
      issuanceLog: platform.issuanceLog,
    },
    crls:
      configuration.crl &&
      createCrlSource({
        ...configuration.crl,
        propagationSeconds,
        authorities: own,
        configuredRevocations: configuration.configuredRevocations,
        shareWork,
        log,
      }),
    publishedLog: platform.publishedLog,
    log,
    clock,
    refreshHintSeconds,
    bundleMaximumAgeSeconds: Math.min(60, propagationSeconds),
    longPollLimits: {
      longestSeconds: configuration.bundleWaitSeconds,
      readSeconds: Math.min(longestReadSeconds, Math.max(shortestReadSeconds, refreshSeconds)),
    },
  };
  const access = configuration.console?.access;
  const accessKeys =
    access && operatorKeys(access.team, accessKeysUrl(access), { ...platform, shareWork });
  return { certificateAuthority, ...mints, issuers, accessKeys };
}

function vouchingIn(authorities: Authorities): VouchingAuthorities {
  return async (now) => (await authorities.at(now)).vouching;
}

/** The store of the unnamed authorities holds the revocations, for named signers as well. */
function revokedIn(authorities: Authorities, configured: readonly RevocationContent[]): IsRevoked {
  return async (certificate, now) => {
    const { revocations } = await authorities.at(now);
    return revocationOf([...configured, ...revocations], certificate) !== undefined;
  };
}

type Mints = Pick<Composition, "mint" | "signerMints">;

async function createMints(
  configuration: Configuration,
  { store, signerStore, log, cryptoProvider, fetching, fetchingUpstream }: Platform,
): Promise<Mints> {
  const { trustDomain, authorityKey, phaseLengths, inceptionDate, configuredTaints } =
    configuration;
  const { authorityRoot } = configuration;
  const keks = await openKeks(configuration);
  const mint = {
    store,
    keks,
    cryptoProvider,
    trustDomain,
    authorityKey,
    phaseLengths,
    authorityRoot,
    upstream: upstreamOf(configuration, fetching ?? fetchingUpstream, fetching !== undefined),
    inceptionDate,
    configuredTaints,
    log,
  };
  const signerMints = new Map<string, Mint>();
  for (const { name, authority_key, inception_date } of configuration.signers) {
    if (!signerStore) break;
    signerMints.set(name, {
      ...mint,
      store: signerStore(name),
      keks: await openKeks(configuration, name),
      authorityKey: authority_key,
      inceptionDate: inception_date,
      log: logOf(name, log),
      joinsMesh: true,
    });
  }
  return { mint, signerMints };
}

/** Names the signer in every event of its authorities. */
function logOf(signer: string, log: EventLog): EventLog {
  return { ...log, operation: (event) => log.operation({ ...event, signer }) };
}

/** The authorities of all mints, each with the trust bundle of all. */
function authoritiesOf(
  { mint, signerMints }: Mints,
  freshness: Pick<
    AuthoritiesConfiguration,
    "refreshSeconds" | "surviveOutageSeconds" | "shareWork"
  >,
): { readonly own: Authorities; readonly named: ReadonlyMap<string, Authorities> } {
  const open = (each: Mint): Authorities => createAuthorities({ ...each, ...freshness });
  const own = open(mint);
  const named = [...signerMints].map(([name, each]) => [name, open(each)] as const);
  const all = [own, ...named.map(([, each]) => each)];
  const united = (one: Authorities): Authorities =>
    uniteBundles(
      one,
      all.filter((other) => other !== one),
    );
  return { own: united(own), named: new Map(named.map(([name, each]) => [name, united(each)])) };
}
