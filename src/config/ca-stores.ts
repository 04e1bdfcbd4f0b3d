import { Authorities } from "../ca/authorities.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { type BundlePart, uniteBundles } from "../ca/issuance/signers.ts";
import type { Mint } from "../ca/mint.ts";
import type { StorePolicy } from "../ca/opened-store.ts";
import type { AuthorityStore } from "../custody/authority-store.ts";
import type { HeldKeks, KekRing } from "../custody/kek.ts";
import { WorkSharing } from "../foundation/shared-work.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import type { Configuration } from "./configuration.ts";
import { crlRootOf, type UpstreamContext, upstreamOf } from "./internal/upstream.ts";
import { ConfiguredKeks } from "./keks.ts";
import type { PlatformKeys } from "./platform-keys.ts";

/** What a platform needs to provide for the stores of authorities. */
export interface StorePlatform {
  readonly store: AuthorityStore;
  /** Opens the store of a named signer, which is separate from all others. */
  readonly signerStore?: (signer: string) => AuthorityStore;
  readonly clock: () => Date;
  readonly log: EventLog;
  readonly cryptoProvider: CryptoProvider;
  /** The longest time between two reads of the store, for platforms where a read costs little. */
  readonly longestRefreshSeconds?: number;
  /** How far a load may be behind the writes to the store, in seconds. By default, a load shows all writes. */
  readonly storeLagSeconds?: number;
  /** Waits briefly for a load that continues after its request; absent on a platform where a load ends with its request. */
  readonly waitBriefly?: (load: Promise<void>) => Promise<void>;
  /** Absent on platforms whose requests may not await each other's promises. */
  readonly shareWork?: WorkSharing;
  /** The KEKs, where the program holds them already. */
  readonly keks?: HeldKeks;
  /** Absent from programs that reach no key service. */
  readonly keyCustody?: PlatformKeys | undefined;
  /** Goes on with work that no call waits for. Absent where work ends with its call. */
  readonly inBackground?: ((work: Promise<void>) => void) | undefined;
  /** Whether this program publishes bundles, and so records the taints that the configuration states. */
  readonly publishes?: boolean;
}

/** A store, the KEKs that open its records, and the authorities in it. */
export interface CaStore {
  readonly store: AuthorityStore;
  readonly keks: KekRing;
  readonly log: EventLog;
  readonly authorities: Authorities;
}

/** The stores of a CA. They stay open while the rest of its configuration changes. */
export interface CaStores {
  readonly own: CaStore;
  readonly keks: HeldKeks;
  /** The stores of the named signers, by name. */
  readonly named: ReadonlyMap<string, CaStore>;
  /** Applies the taints, the phases and the kind of root of another configuration from now on, and nothing else of it. */
  readonly follow: (configuration: Configuration) => void;
}

/** Opens the stores of a CA. */
export const CaStores = {
  /**
   * Opens the stores of a configuration and of its signers, each with the trust bundle of all. No store is read yet.
   * Without `signerStore` the signers are left out. @throws ConfigurationError as {@link ConfiguredKeks.hold}.
   */
  async open(configuration: Configuration, platform: StorePlatform): Promise<CaStores> {
    const { signerStore, shareWork = WorkSharing.polling(platform.clock) } = platform;
    const keks =
      platform.keks ?? (await ConfiguredKeks.hold(configuration, { ...platform, shareWork }));
    const opening = { ...platform, keks, shareWork };
    const own = openStore(configuration, opening);
    const signers = !signerStore
      ? []
      : configuration.signers.map(({ name, mesh_bundle: sharesPostQuantum }) => {
          const place = { store: signerStore(name), log: logOf(name, platform.log) };
          const opened = openStore(configuration, { ...opening, ...place }, name);
          return { name, sharesPostQuantum, ...opened };
        });
    const parts = [{ ...own, sharesPostQuantum: false }, ...signers];
    return {
      own: united(own, parts),
      keks,
      named: new Map(signers.map((each) => [each.name, united(each, parts)])),
      follow: (next) => {
        for (const each of parts) each.follow(next);
      },
    };
  },

  /**
   * Makes the parts that issue authorities for this CA and for each named signer with an open store.
   * @throws ConfigurationError if the upstream CA lacks its credential (unless `mayLackCredential`), or if its root is in
   *   a key service that this platform does not reach.
   */
  mints(
    { own, named }: CaStores,
    configuration: Configuration,
    { cryptoProvider, ...means }: Pick<StorePlatform, "cryptoProvider"> & UpstreamContext,
  ) {
    const { trustDomain, crl } = configuration;
    const rootIn = (of: Configuration) => ({
      upstream: upstreamOf(of, means),
      crlRoot: of.crl && crlRootOf(of.upstream, means.keyCustody),
    });
    const mintIn = ({ store, keks, log }: CaStore, signer?: string) => {
      const policy = policyOf(configuration, signer);
      return { store, keks, log, cryptoProvider, trustDomain, crl, ...policy };
    };
    const root = rootIn(configuration);
    const mint: Mint = {
      ...mintIn(own),
      ...root,
      authorityKey: configuration.authorityKey,
      inceptionDate: configuration.inceptionDate,
      tokenAlgorithm: configuration.tokens?.algorithm,
    };
    /** The mints by the names of their signers. A signer whose store is not open is left out. */
    const signerMints = new Map<string, Mint>();
    for (const { name, upstream_authority: upstream, ...table } of configuration.signers) {
      const opened = named.get(name);
      if (!opened) continue;
      signerMints.set(name, {
        ...mintIn(opened, name),
        ...(upstream ? rootIn({ ...configuration, upstream }) : root),
        authorityKey: table.authority_key,
        inceptionDate: table.inception_date,
        joinsMesh: true,
      });
    }
    return { mint, signerMints };
  },
};

/** The means to open one store. */
type Opening = StorePlatform & Required<Pick<StorePlatform, "keks" | "shareWork">>;

function openStore(configuration: Configuration, opening: Opening, signer?: string) {
  const { store, keks: held, log, clock, cryptoProvider, publishes = false } = opening;
  const { shareWork, waitBriefly, storeLagSeconds = 0 } = opening;
  const { trustDomain, phaseLengths } = configuration;
  const keks = held.ring(signer);
  let policy = policyOf(configuration, signer);
  const records = { store, keks, log, cryptoProvider, trustDomain };
  const authorities = Authorities.create({
    ...records,
    ...policy,
    currentPolicy: () => policy,
    publishes,
    shareWork,
    waitBriefly,
    refreshSeconds: refreshSecondsOf(configuration, opening),
    surviveOutageSeconds: Math.max(0, phaseLengths.propagationSeconds - storeLagSeconds),
  });
  return {
    store: openWhileHeld(store, held, clock),
    keks,
    log,
    authorities: servedWhileHeld(authorities, held),
    follow: (next: Configuration) => {
      policy = policyOf(next, signer);
    },
  };
}

/** A store whose trust bundle has the roots of all others, too. */
function united({ store, keks, log, authorities }: CaStore, parts: readonly BundlePart[]): CaStore {
  const others = parts.filter((each) => each.authorities !== authorities);
  return { store, keks, log, authorities: uniteBundles(authorities, others) };
}

/** Wraps a store so that each load first acquires the KEK that unseals the records. */
function openWhileHeld(store: AuthorityStore, keks: HeldKeks, clock: () => Date): AuthorityStore {
  return {
    load: async () => {
      await keks.hold(clock());
      return store.load();
    },
    put: (record, before) => store.put(record, before),
    delete: (name) => store.delete(name),
  };
}

/** Wraps authorities so that they are served only while the KEK that unsealed them is held. */
function servedWhileHeld(authorities: Authorities, keks: HeldKeks): Authorities {
  return {
    at: (now) => {
      const opening = keks.hold(now);
      return opening ? opening.then(() => authorities.at(now)) : authorities.at(now);
    },
    renew: async (now) => {
      await keks.hold(now);
      await authorities.renew(now);
    },
  };
}

/** The policy of the mesh's own authorities, or of a named signer, which may have another root. */
function policyOf(
  { configuredTaints, authorityRoot, phaseLengths, signers }: Configuration,
  signer?: string,
): StorePolicy {
  const hasOwnRoot = signers.some((each) => each.name === signer && each.upstream_authority);
  return {
    configuredTaints,
    phaseLengths,
    authorityRoot: hasOwnRoot ? "upstream" : authorityRoot,
  };
}

/** The time between two reads of the store: a quarter of `PROPAGATION_INTERVAL`, but at most the platform's longest. */
export function refreshSecondsOf(
  { phaseLengths: { propagationSeconds } }: Configuration,
  platform: Pick<StorePlatform, "longestRefreshSeconds">,
): number {
  // A quarter, so that a slow read ends while the loaded authorities still serve.
  return Math.min(
    platform.longestRefreshSeconds ?? Authorities.longestRefreshSeconds,
    propagationSeconds / 4,
  );
}

/** Names the signer in every event of its authorities. */
function logOf(signer: string, log: EventLog): EventLog {
  return { ...log, operation: (event) => log.operation({ ...event, signer }) };
}

/** The mints of a configuration, and those of its named signers. */
export type Mints = Readonly<ReturnType<typeof CaStores.mints>>;
