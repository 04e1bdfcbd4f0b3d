import type { AuthorityStore } from "../custody/authority-store.ts";
import type { KekRing } from "../custody/kek.ts";
import { sealAuthority } from "../custody/seal.ts";
import { firstSchedule, type PhaseLengths } from "../pki/schedule.ts";
import { type AuthorityKey, createAuthority } from "../pki/self-signed-authority.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import type { EventLog } from "./audit-event.ts";

/** How authorities are made, and where they go. */
export interface Founding {
  readonly store: AuthorityStore;
  readonly keks: KekRing;
  readonly trustDomain: TrustDomain;
  readonly authorityKey: AuthorityKey;
  readonly phaseLengths: PhaseLengths;
  /** `YYYY-MM-DD`: the UTC day on which, and only on which, an empty store gets its first authority. */
  readonly inceptionDate: string | undefined;
  readonly log: EventLog;
}

/**
 * Gives an empty store its first authority, on the day that the operator named. On any other day an
 * empty store is a lost store, and a new CA would cut the mesh in two: it stays empty.
 *
 * Two runs at once may make two authorities; both are published, and readers agree on one.
 *
 * @throws Error when the store is empty on another day, so that the platform shows a failed run.
 */
export async function foundIfEmpty(founding: Founding, now: Date): Promise<void> {
  const records = await founding.store.load();
  if (records.length > 0) return;
  const today = now.toISOString().slice(0, 10);
  if (founding.inceptionDate !== today) {
    throw new Error(
      `the store holds no authority, and INCEPTION_DATE is ${founding.inceptionDate ?? "not set"}, not ${today}: ` +
        "a store that was emptied must be restored, a new one needs today's date",
    );
  }
  const schedule = firstSchedule(founding.phaseLengths, now);
  const created = await createAuthority(founding.trustDomain, founding.authorityKey, schedule);
  await founding.store.put(await sealAuthority(created, founding.trustDomain, founding.keks));
  founding.log.operation({
    event: "authority-founded",
    level: "info",
    detail: "the empty store got its first authority",
    authority: created.authority.id,
    signsFrom: schedule.signsFrom.toISOString(),
  });
}
