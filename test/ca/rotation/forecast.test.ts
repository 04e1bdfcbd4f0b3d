import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { OpenedStore } from "../../../src/ca/opened-store.ts";
import { Forecast, type ForecastEvent } from "../../../src/ca/rotation/forecast.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { TaintForecast } from "../../../src/ca/rotation/taint-forecast.ts";
import { createTaint, type Departure } from "../../../src/pki/authority/new-taint.ts";
import { RotationStep } from "../../../src/pki/authority/rotation.ts";
import type { ScheduledAuthority } from "../../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { TrustBundle } from "../../../src/pki/authority/trust-bundle.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import {
  authoritiesIn,
  createMemoryMint,
  istioPhaseLengths as lengths,
  type MemoryMint,
} from "../../testkit/ca/memory-mint.ts";
import { createKekRing } from "../../testkit/ca/sealed-authorities.ts";

const inception = new Date("2026-11-21T12:00:00Z");
const day = 86_400;
const after = (days: number): Date => addSeconds(inception, Math.round(days * day));

const keks = await createKekRing();

async function found(): Promise<MemoryMint> {
  const mint = createMemoryMint(keks);
  await Rotation.rotate(mint, inception);
  return mint;
}

async function opened(mint: MemoryMint): Promise<OpenedStore> {
  const stored = await mint.store.load();
  return OpenedStore.open(stored, mint);
}

const effective = ({ openAuthorities }: OpenedStore): ScheduledAuthority[] =>
  openAuthorities.map(({ authority }) => authority);

/** The events as lines of text, with `first` for the id. */
const told = (events: readonly ForecastEvent[], id = ""): string[] =>
  events.map(
    (event) => `${event.at.toISOString()} ${event.id.replace(id, "first")} ${event.event}`,
  );

test("leaves out past events, and mints an overdue authority now", async () => {
  const mint = await found();
  const now = after(400);
  const events = Forecast.rotation(await opened(mint), lengths, now);
  expect(events.every(({ at }) => at >= now)).toBe(true);
  expect(events[0]).toEqual({ at: now, id: "next", event: "minted" });
});

test("tells when an additional root joins the bundle, and when it leaves", () => {
  const never = { signsFrom: after(9), signsUntil: after(9) };
  const schedule = { publishedFrom: after(1), ...never, retiresAt: after(9) };
  const taints = [{ id: "a", taintedAt: inception, retiresAt: after(3) }];
  const additionalRoots = [{ id: "a", schedule, roots: [] }];
  const state = { authorityRoot: "offline", authorities: [], additionalRoots, taints } as const;
  expect(Forecast.rotation(state, lengths, inception)).toEqual([
    { at: after(1), id: "a", event: "published" },
    { at: after(3), id: "a", event: "leaves bundle" },
  ]);
});

test("forecasts no taint of an authority that is tainted or has left the bundle", async () => {
  const mint = await found();
  const [first] = effective(await opened(mint));
  if (!first) throw new Error("nothing was founded");
  expect(TaintForecast.of(await opened(mint), lengths, after(500))).toEqual([]);
  await Mint.recordTaint(
    mint,
    createTaint(await opened(mint), first.id, "with-last-leaf", lengths, after(10)),
  );
  expect(TaintForecast.of(await opened(mint), lengths, after(10))).toEqual([]);
});

/** A past: runs of the cron now and then, and perhaps a taint. */
const history = fc.record({
  crons: fc.array(fc.integer({ min: 1, max: 900 }), { maxLength: 6 }),
  taint: fc.option(
    fc.record({
      day: fc.integer({ min: 1, max: 900 }),
      which: fc.nat(9),
      departure: fc.constantFrom<Departure>("immediately", "with-last-leaf"),
    }),
  ),
  now: fc.integer({ min: 0, max: 900 }),
});

type History = typeof history extends fc.Arbitrary<infer T> ? T : never;

async function live({ crons, taint, now }: History): Promise<MemoryMint> {
  const mint = await found();
  const days = [...crons, ...(taint ? [taint.day] : [])].filter((each) => each <= now);
  for (const each of days.toSorted((a, b) => a - b)) {
    if (each === taint?.day) {
      const authorities = effective(await opened(mint)).filter(
        ({ schedule }) => schedule.retiresAt > after(each),
      );
      const chosen = authorities[taint.which % Math.max(1, authorities.length)];
      if (chosen) {
        const store = await opened(mint);
        const said = createTaint(store, chosen.id, taint.departure, lengths, after(each));
        await Mint.recordTaint(mint, said);
      }
    }
    await Rotation.rotate(mint, after(each));
  }
  return mint;
}

const idsIn = async (mint: MemoryMint): Promise<string[]> =>
  (await authoritiesIn(mint)).map(({ id }) => id);

test("forecasts what the rotation then does", async () => {
  await fc.assert(
    fc.asyncProperty(
      history,
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      async (past, part) => {
        const mint = await live(past);
        const now = after(past.now);
        const store = await opened(mint);
        const foretold = Forecast.rotation(store, lengths, now);
        const mintedAt =
          foretold.find(({ event }) => event === "minted")?.at ?? new Date(Number.NaN);
        const before = new Date(now.getTime() + part * (mintedAt.getTime() - now.getTime()));
        if (before < mintedAt) {
          expect(
            RotationStep.plan(store, lengths, before).filter(({ act }) => act === "mint"),
          ).toEqual([]);
        }
        const known = await idsIn(mint);
        await Rotation.rotate(mint, mintedAt);
        const minted = (await idsIn(mint)).filter((id) => !known.includes(id));
        expect(minted).toHaveLength(1);
        const came = Forecast.rotation(await opened(mint), lengths, mintedAt);
        const since = foretold.filter(({ at, event }) => at >= mintedAt && event !== "minted");
        const named = came
          .filter(({ id }) => id !== "next")
          .map((event) => (event.id === minted[0] ? { ...event, id: "next" } : event));
        expect(told(named).toSorted()).toEqual(told(since).toSorted());
      },
    ),
    { numRuns: 20 },
  );
});

test("forecasts what a taint then does", async () => {
  const departures = fc.constantFrom<Departure>("immediately", "with-last-leaf");
  await fc.assert(
    fc.asyncProperty(history, departures, fc.nat(9), async (past, departure, which) => {
      const mint = await live(past);
      const now = after(past.now);
      const store = await opened(mint);
      const forecasts = TaintForecast.of(store, lengths, now);
      const forecast = forecasts[which % Math.max(1, forecasts.length)];
      const subject = effective(store).find(({ id }) => id === forecast?.id);
      if (!forecast?.successorSignsFrom || !subject) return;
      const known = await idsIn(mint);
      await Mint.recordTaint(mint, createTaint(store, subject.id, departure, lengths, now));
      await Rotation.rotate(mint, now);
      const left = effective(await opened(mint));
      const nameOf = (id: string | undefined) => (known.includes(id ?? "") ? id : "next");
      const signsAt = (at: Date) => SigningAuthority.at(left, at)?.id;
      expect(nameOf(signsAt(forecast.successorSignsFrom))).toBe(forecast.successor);
      const justBefore = new Date(forecast.successorSignsFrom.getTime() - 1);
      if (justBefore >= now) expect(signsAt(justBefore)).toBeUndefined();
      const until = forecast.trustedUntil[departure];
      const isTrusted = (at: Date) =>
        TrustBundle.authoritiesAt(left, at).some(({ id }) => id === subject.id);
      expect(isTrusted(until)).toBe(false);
      const lastInstant = new Date(until.getTime() - 1);
      if (lastInstant >= now && lastInstant >= subject.schedule.publishedFrom) {
        expect(isTrusted(lastInstant)).toBe(true);
      }
    }),
    { numRuns: 20 },
  );
});
