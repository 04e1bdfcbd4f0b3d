import { firstSchedule, joiningSchedule, type Schedule } from "../../pki/authority/schedule.ts";
import { type Mint, mintAuthority } from "../mint.ts";
import { askUpstream } from "../upstream/ask-upstream.ts";

/**
 * Gives an empty store its first authority, on the day that the operator named. On any other day an
 * empty store has lost its records, and a new CA would cut the mesh in two: the store stays empty.
 *
 * Two runs at once may make two authorities; both are published before either signs.
 *
 * @throws Error if the store is empty on another day, so that the platform shows a failed run.
 */
export async function foundIfEmpty(mint: Mint, now: Date): Promise<void> {
  const records = await mint.store.load();
  if (records.some(({ kind }) => kind === "authority")) return;
  if (mint.authorityRoot === "offline") {
    throw new Error(
      "the store holds no authority, and AUTHORITY_ROOT is offline: `rampart authority request` begins one",
    );
  }
  if (records.length > 0) {
    throw new Error("the store holds records but no authority: one was lost, or is on its way");
  }
  const today = now.toISOString().slice(0, 10);
  if (mint.inceptionDate !== today) {
    throw new Error(
      `the store holds no authority, and INCEPTION_DATE is ${mint.inceptionDate ?? "not set"}, not ${today}: ` +
        "a store that was emptied must be restored, a new one needs today's date",
    );
  }
  await foundAuthority(mint, now);
}

/** Gives an empty store its first authority, whose certificate a CA upstream signs where there is one. */
export async function foundAuthority(mint: Mint, now: Date): Promise<void> {
  if (mint.authorityRoot === "upstream") await askUpstream(mint, undefined, now);
  else await mintAuthority(mint, inceptionSchedule(mint, now));
}

/** The schedule of the first authority in the store. */
function inceptionSchedule({ joinsMesh, phaseLengths }: Mint, now: Date): Schedule {
  return (joinsMesh ? joiningSchedule : firstSchedule)(phaseLengths, now);
}
