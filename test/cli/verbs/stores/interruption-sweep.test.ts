import { isDeepStrictEqual } from "node:util";
import type { Command } from "commander";
import { beforeAll, expect, test } from "vitest";
import { AuthorityView } from "../../../../src/ca/authority-view.ts";
import { OpenedStore } from "../../../../src/ca/opened-store.ts";
import { rampart } from "../../../../src/cli/rampart.ts";
import { createSessionStore, type Session } from "../../../../src/cli/session/session.ts";
import type { AuthorityStore } from "../../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../../src/custody/kek.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { createMemoryMint, type MemoryMint } from "../../../testkit/ca/memory-mint.ts";
import { createMemorySession } from "../../../testkit/ca/memory-session.ts";
import { createKekRing } from "../../../testkit/ca/sealed-authorities.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { now, type StoreChange, storeChanges } from "./store-changes.ts";

/** The verbs below a command that have a dry run, because they change a store. */
function changingVerbs(command: Command, words: readonly string[] = []): string[] {
  return command.commands.flatMap((child) => {
    const name = [...words, child.name()];
    const isOne = child.options.some(({ long }) => long === "--dry-run");
    return [...(isOne ? [name.join(" ")] : []), ...changingVerbs(child, name)];
  });
}

test("every verb that changes a store is interrupted here", async () => {
  const verbs = changingVerbs(await rampart("", new MemoryTerminal()));
  const swept = new Set(storeChanges.map(({ verb }) => verb));
  // It writes when the last backup was made, and has no dry run.
  swept.delete("authority export");
  expect(verbs.toSorted()).toEqual([...swept].toSorted());
});

/** What becomes of one call of a store, and of the verb that makes it. */
const interruptions = [
  "fails",
  "fails although it is done",
  "is the last thing before a kill",
] as const;
type Interruption = (typeof interruptions)[number];

let keks: KekRing;

beforeAll(async () => {
  keks = await createKekRing();
});

/** A store of which one call, counted from 1, is interrupted. After a read, only a failure makes a difference. */
function interrupted(store: AuthorityStore, at: number, how: Interruption) {
  const killed = Promise.withResolvers<void>();
  let calls = 0;
  async function through<T>(call: () => Promise<T>): Promise<T> {
    if (++calls !== at) return call();
    if (how === "fails") throw new Error("the store is unreachable");
    const answer = await call();
    if (how === "fails although it is done") throw new Error("the answer of the store is lost");
    killed.resolve();
    return new Promise<T>(() => void answer);
  }
  return {
    calls: () => calls,
    killed: killed.promise,
    store: {
      load: how === "fails" ? () => through(() => store.load()) : () => store.load(),
      put: (record) => through(() => store.put(record)),
      delete: (name) => through(() => store.delete(name)),
    } satisfies AuthorityStore,
  };
}

function mintWith(change: StoreChange, records: ReadonlyMap<string, string>): MemoryMint {
  const mint = createMemoryMint(keks, change.mint);
  for (const [key, value] of records) mint.store.records.set(key, value);
  return mint;
}

const openedOf = async (mint: MemoryMint): Promise<OpenedStore> =>
  OpenedStore.open(await mint.store.load(), mint);

const sessionOn = (mint: MemoryMint, store: AuthorityStore = mint.store): Session =>
  createMemorySession({ ...mint, store: { ...mint.store, ...store } }, now);

/** A session without `--yes` at a pipe, where nobody can be asked. */
const unconfirmed = (mint: MemoryMint): Session => ({ ...sessionOn(mint), isConfirmed: false });

function dry(mint: MemoryMint): Session {
  const session = sessionOn(mint);
  const store = createSessionStore(mint.store, true);
  return { ...session, isDry: true, mint: { ...session.mint, store } };
}

/** What a store says, without the keys that each run makes anew. */
function summaryOf({ refusals, ...store }: OpenedStore) {
  const { authorities, additionalRoots, taints, denials, requests, revocations } = store;
  const view = AuthorityView.at({ refusals, ...store }, now);
  return {
    refusals,
    authorities: authorities.map(({ schedule, intermediates }) => [schedule, intermediates.length]),
    signs: view.issuer?.authority.schedule,
    roots: view.trustBundle.roots.length,
    additionalRoots: additionalRoots.map(({ id }) => id).toSorted(),
    taints: taints.map(({ taintedAt, retiresAt }) => [taintedAt, retiresAt]),
    denials: denials.map(({ subject }) => subject),
    // A request that nobody has printed yet is made again.
    lastBackup: store.lastBackup,
    hasRequest: requests.length > 0,
    revocations: revocations.map(({ certificates }) => [...certificates]).toSorted(),
  };
}

interface Prepared {
  readonly records: ReadonlyMap<string, string>;
  readonly folder: string;
}

async function prepare(change: StoreChange): Promise<Prepared> {
  const mint = createMemoryMint(keks, change.mint);
  const folder = await temporaryFolder();
  await change.prepare(sessionOn(mint), folder);
  return { records: new Map(mint.store.records), folder };
}

/** Runs a verb that one call interrupts. @returns The number of calls, and whether there was that one. */
async function runInterrupted(
  change: StoreChange,
  { records, folder }: Prepared,
  at: number,
  how: Interruption,
) {
  const mint = mintWith(change, records);
  const { store, calls, killed } = interrupted(mint.store, at, how);
  const ended = change.run(sessionOn(mint, store), folder).catch(() => {});
  await Promise.race([ended, killed]);
  return { mint, isInterrupted: calls() >= at };
}

/** What a second run may say of a first one that was whole. */
async function runAgain(change: StoreChange, mint: MemoryMint, folder: string): Promise<void> {
  try {
    await change.run(sessionOn(mint), folder);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
  }
}

test.each(storeChanges)(
  "$title: whatever becomes of a call to the store, that stays whole, and a second run completes",
  async (change) => {
    const prepared = await prepare(change);
    const before = await openedOf(mintWith(change, prepared.records));
    const whole = mintWith(change, prepared.records);
    await change.run(sessionOn(whole), prepared.folder);
    const after = summaryOf(await openedOf(whole));
    expect(after).not.toEqual(summaryOf(before));
    for (const how of interruptions) {
      for (let at = 1; ; at++) {
        const { mint, isInterrupted } = await runInterrupted(change, prepared, at, how);
        if (!isInterrupted) break;
        const left = await openedOf(mint);
        expect([how, at, left.refusals]).toEqual([how, at, []]);
        const ids = left.authorities.map(({ id }) => id);
        for (const { id } of before.authorities) expect(ids).toContain(id);
        await runAgain(change, mint, prepared.folder);
        expect([how, at, summaryOf(await openedOf(mint))]).toEqual([how, at, after]);
      }
    }
  },
);

const ofVerbs = storeChanges.filter(({ hasNoDryRun }) => !hasNoDryRun);

test.each(ofVerbs)(
  "$title writes nothing in a dry run, nor before its question has an answer",
  async (change) => {
    const { records, folder } = await prepare(change);
    const runIn = async (sessionOf: (mint: MemoryMint) => Session) => {
      const mint = mintWith(change, records);
      const refusal = await change.run(sessionOf(mint), folder).catch(String);
      return { refusal, isUnchanged: isDeepStrictEqual(mint.store.records, new Map(records)) };
    };
    expect(await runIn(dry)).toEqual({ refusal: undefined, isUnchanged: true });
    expect(await runIn(unconfirmed)).toEqual({
      refusal: change.asks ? expect.stringMatching(/add --yes$/) : undefined,
      isUnchanged: change.asks === true,
    });
  },
);
