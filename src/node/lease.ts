/** A lease as it is stored: who holds it, and for how long after its last change. */
export interface Lease {
  /** The name of the holder; empty for a free lease. */
  readonly holder: string;
  readonly seconds: number;
  /** When the holder acquired it, by its own clock, in the form of the {@link LeasePlace}. */
  readonly acquireTime: string | undefined;
  /** How often it has passed to another holder. */
  readonly transitions: number;
}

/** Stores one lease, with optimistic locking. */
export interface LeasePlace {
  /** Reads the lease with its version. @returns `undefined` if the lease was never held. */
  readonly read: () => Promise<(Lease & { readonly version: string }) | undefined>;
  /**
   * Writes the lease as the next one after this version, or as the first one.
   *
   * @returns Whether no other write came before.
   */
  readonly write: (lease: Lease, now: Date, version?: string) => Promise<boolean>;
}

/** One of the processes that compete for a lease, of which at most one may hold it. */
export interface LeaseCandidate {
  /**
   * Acquires the lease if it is free or has expired, or renews it. Reads the lease first and the clock afterwards: a
   * slow read may return a lease that was written after the read began.
   *
   * @returns Whether this candidate holds the lease.
   * @throws FetchError; it is unknown then who holds the lease.
   */
  readonly acquire: (clock: () => Date) => Promise<boolean>;
  /** Releases the lease if this candidate holds it, so that another need not wait for its expiry. @throws FetchError */
  readonly release: (now: Date) => Promise<void>;
}

/** Creates candidates. */
export const LeaseCandidate = {
  /**
   * Creates a candidate for a lease, by the rules of client-go's leader election. It measures another holder's time by
   * its own clock, from the last change that it saw, because clocks may disagree.
   *
   * @param identity Different for every process.
   * @param seconds How long a holder keeps the lease without a renewal.
   */
  create({ read, write }: LeasePlace, identity: string, seconds: number): LeaseCandidate {
    /** A version of the lease, and when this candidate saw it first. */
    let observed: { readonly version: string; readonly since: Date } | undefined;

    function isHeldByAnother(lease: Lease & { readonly version: string }, now: Date): boolean {
      const { version } = lease;
      // If the clock was set back, the elapsed time is unknown, so it is counted from now.
      if (observed?.version !== version || now < observed.since) observed = { version, since: now };
      if (lease.holder === "" || lease.holder === identity) return false;
      return now.getTime() < observed.since.getTime() + 1000 * lease.seconds;
    }

    return {
      acquire: async (clock) => {
        const lease = await read();
        const now = clock();
        const mine = { holder: identity, seconds, acquireTime: undefined, transitions: 0 };
        if (!lease) return write(mine, now);
        if (isHeldByAnother(lease, now)) return false;
        const { acquireTime, transitions, version } = lease;
        const next =
          lease.holder === identity
            ? { ...mine, acquireTime, transitions }
            : { ...mine, transitions: transitions + 1 };
        return write(next, now, version);
      },
      release: async (now) => {
        const lease = await read();
        if (lease?.holder !== identity) return;
        const { transitions, version } = lease;
        await write({ holder: "", seconds: 1, acquireTime: undefined, transitions }, now, version);
      },
    };
  },
};
