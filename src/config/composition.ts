import { Authenticator } from "../authn/caller.ts";
import { CertificateVerifier, type IsRevoked } from "../authn/certificate-verifier.ts";
import { acceptingForwardedCertificates } from "../authn/forwarded-certificate.ts";
import type { IssuerKeys } from "../authn/issuer-keys.ts";
import { keyFaultFinder } from "../authn/key-faults.ts";
import { createTokenAuthenticator } from "../authn/token-authenticator.ts";
import type { TokenIssuer } from "../authn/token-issuer.ts";
import type { Authorities } from "../ca/authorities.ts";
import type { idempotentOver } from "../ca/issuance/idempotency.ts";
import { createIdentityPolicy } from "../ca/issuance/identity-policy.ts";
import type { IssuanceLog } from "../ca/issuance/issuance-log.ts";
import type { UseToken } from "../ca/issuance/issue-certificate.ts";
import type { Quotas } from "../ca/issuance/quotas.ts";
import { Policy } from "../ca/policy/policy.ts";
import type { Hindrances } from "../ca/readiness.ts";
import { revocationOf } from "../ca/revocation/crl-plan.ts";
import { type CrlSource, SignedCrls } from "../ca/revocation/published-crls.ts";
import type { HeldKeks } from "../custody/kek.ts";
import type { RevocationContent } from "../custody/record-kinds.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import { WorkSharing } from "../foundation/shared-work.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import type { PublishedLog } from "../transport/http/log-routes.ts";
import { CaStores, type Mints, refreshSecondsOf, type StorePlatform } from "./ca-stores.ts";
import type { Configuration } from "./configuration.ts";
import { accessKeysUrl } from "./optional-parts.ts";
import type { ReusedParts } from "./reload-pool.ts";
import { namedSigners } from "./signer-table.ts";
import {
  type ClusterPlatform,
  operatorKeys,
  tokenIssuers,
  withoutReload,
} from "./token-issuers.ts";

/** What a CA needs of its platform. */
export interface Platform extends Omit<ClusterPlatform, "shareWork">, StorePlatform {
  /** Absent in a program without callers. */
  readonly quotas?: Quotas;
  /** Absent where nothing is logged. */
  readonly issuanceLog?: IssuanceLog | undefined;
  readonly publishedLog?: PublishedLog | undefined;
  /** Why the store takes no record; absent on a platform that does not examine that. */
  readonly storeFault?: () => string | undefined;
  readonly port?: Hindrances["port"];
  /** Absent on a platform where several processes cannot agree on a token's first use at once. */
  readonly useToken?: UseToken | undefined;
  /** Absent on a platform that does not remember what it has issued. */
  readonly idempotency?: ReturnType<typeof idempotentOver> | undefined;
}

/** A configured CA: the part that answers requests, and the mints that the cron rotates. */
export interface Composition extends Mints {
  readonly certificateAuthority: CertificateAuthority;
  readonly issuers: readonly TokenIssuer[];
  readonly keks: HeldKeks;
  /** The JWK Set of Cloudflare Access; `undefined` unless the console accepts its tokens. */
  readonly accessKeys: IssuerKeys | undefined;
}

/** `spiffe_refresh_hint` (SPIFFE Trust Domain and Bundle §4.1.2): followers know a root long before it signs. */
const refreshHintSeconds = 300;

/** Bounds of the time between two reads of the bundle by a long poll; a read takes microseconds. */
const shortestReadSeconds = 0.25;
const longestReadSeconds = 5;

/** Composes a CA. */
export const Composition = {
  /**
   * Builds the CA of a configuration on a platform. All layers meet here and nowhere else.
   *
   * @throws ConfigurationError for access to a cluster that this platform cannot have, and for single-use tokens on a
   *   platform that cannot detect a second use.
   */
  async compose(configuration: Configuration, platform: Platform): Promise<Composition> {
    const stores = await CaStores.open(configuration, { ...platform, publishes: true });
    return Composition.composeOn(stores, configuration, platform);
  },

  /**
   * Builds the CA on stores that are open already, for a configuration that may not be the one of the start. The function
   * is long because it is a list: it makes every part of a CA once, from the others that the part needs.
   *
   * @throws ConfigurationError as {@link Composition.compose}.
   */
  composeOn(stores: CaStores, configuration: Configuration, platform: Platform): Composition {
    const { log, clock, cryptoProvider } = platform;
    const { pools = withoutReload, shareWork = WorkSharing.polling(clock) } = platform;
    const means = { ...platform, pools, shareWork };
    requireSingleUse(configuration, platform);
    const { trustDomain, leafLifetimes } = configuration;
    const mints = CaStores.mints(stores, configuration, platform);
    const issuers = tokenIssuers(configuration, means);
    const own = stores.own.authorities;
    const refreshSeconds = refreshSecondsOf(configuration, platform);
    const isRevoked = revokedIn(own, configuration.configuredRevocations);
    const verify = CertificateVerifier.create({
      trustDomain,
      vouchingAt: async (now) => (await own.at(now)).vouching,
      isRevoked,
      issuers,
      cryptoProvider,
    });
    const certificateAuthority: CertificateAuthority = {
      authenticate: acceptingForwardedCertificates(
        { trustDomain, verify },
        Authenticator.certificateFirst(verify, createTokenAuthenticator(trustDomain, issuers)),
      ),
      issuance: {
        authorities: own,
        identityPolicy: createIdentityPolicy(trustDomain),
        signers: namedSigners(configuration.signers, stores.named),
        configuredDenials: configuration.configuredDenials,
        leafLifetimes,
        policy: configuration.policy && Policy.create(configuration.policy),
        cryptoProvider,
        quotas: platform.quotas,
        tokens: configuration.tokens,
        issuanceLog: platform.issuanceLog,
        useToken: platform.useToken,
        idempotency: platform.idempotency?.({ isRevoked, cryptoProvider }),
        kekFault: stores.keks.fault,
        storeFault: platform.storeFault,
        port: platform.port,
        keyFault: keyFaultFinder(issuers, platform.waitBriefly),
      },
      crls: crlsOf(own, configuration, means),
      publishedLog: platform.publishedLog,
      log,
      clock,
      refreshHintSeconds,
      bundleMaximumAgeSeconds: Math.min(60, configuration.phaseLengths.propagationSeconds),
      longPollLimits: {
        longestSeconds: configuration.bundleWaitSeconds,
        readSeconds: Math.min(longestReadSeconds, Math.max(shortestReadSeconds, refreshSeconds)),
      },
    };
    const access = configuration.console?.access;
    const accessKeys = access && operatorKeys(access.team, accessKeysUrl(access), means);
    return { certificateAuthority, ...mints, issuers, keks: stores.keks, accessKeys };
  },
};

/**
 * Requires a platform that detects a second use of a token, if an entry of `subjects` demands that.
 *
 * @throws ConfigurationError otherwise.
 */
function requireSingleUse({ issuers }: Configuration, { useToken }: Platform): void {
  const faults = issuers.flatMap(({ subjects = [] }, i) =>
    subjects.flatMap(({ once }, j) =>
      once
        ? [`ISSUERS[${i}].subjects[${j}].once: takes \`rampart serve\` with a store in files`]
        : [],
    ),
  );
  if (!useToken && faults.length > 0) throw new ConfigurationError(faults);
}

function crlsOf(
  authorities: Authorities,
  { crl, configuredRevocations, phaseLengths: { propagationSeconds } }: Configuration,
  { log, shareWork, pools }: ClusterPlatform & { readonly pools: ReusedParts },
): CrlSource | undefined {
  if (!crl) return undefined;
  const made = { ...crl, propagationSeconds, authorities, configuredRevocations, shareWork, log };
  return pools.crls.of(
    [crl, configuredRevocations, propagationSeconds],
    () => new SignedCrls(made).at,
  );
}

/** Whether a certificate is revoked. The store of the unnamed authorities has the revocations for named signers as well. */
function revokedIn(authorities: Authorities, configured: readonly RevocationContent[]): IsRevoked {
  return async (certificate, now) => {
    const { revocations } = await authorities.at(now);
    const isIn = (list: readonly RevocationContent[]) =>
      revocationOf(list, certificate) !== undefined;
    return isIn(configured) || isIn(revocations);
  };
}
