import { byPublication } from "../../../src/pki/authority/schedule.ts";
import type { PublishedAuthority } from "../../../src/pki/authority/trust-bundle.ts";
import type { Written } from "./records.ts";
import { at, nameOf, type State, tickOf, type World } from "./world.ts";

/** A text that is the same for states with the same futures: times are relative, and names are places in an order. */
export function keyOf(world: World, state: State): string {
  const { now, store, answers, contents, settled, dueSince, madeAt, tainting, left } = state;
  const names = new Map<string, number>();
  const nameIn = (name: string): number => {
    const known = names.get(name) ?? names.size;
    names.set(name, known);
    return known;
  };
  const since = (instant: number | undefined): number | undefined =>
    instant === undefined ? undefined : Math.max(instant - now, -world.propagation);
  // Of a change of the bundle before the latest one, the order alone counts; a reader that is behind gives a number of
  // the contents below. An intermediate needs to know for how long the bundle has had its root.
  const latest =
    settled === undefined ? 0 : Math.floor((settled.sequence - at(0).getTime()) / 60_000);
  const oldest = Math.min(latest - now, -world.leaf - 3 * world.propagation) - 1;
  const rel = (instant: Date): number => Math.max(tickOf(instant) - now, oldest);
  const authorities = store.authorities
    .toSorted(byOrder)
    .map(({ record, at: written, deletedAt }) => [
      nameIn(record.id),
      record.roots.map((root) => nameIn(nameOf(root))),
      [record.schedule.publishedFrom, record.schedule.retiresAt].map(rel),
      [record.schedule.signsFrom, record.schedule.signsUntil].map((each) => tickOf(each) - now),
      since(written),
      since(deletedAt),
    ]);
  const published = [...store.authorities, ...store.roots, ...store.keys].map(
    ({ record }) => record,
  );
  const order = published.toSorted(byPublication);
  const others = [...store.roots, ...store.keys].map(({ record, at: written, deletedAt }) => [
    nameIn(record.id),
    record.roots.map((root) => nameIn(nameOf(root))),
    order.indexOf(record),
    rel(record.schedule.publishedFrom),
    rel(record.schedule.retiresAt),
    since(written),
    since(deletedAt),
  ]);
  const lines = store.configured.map(({ record, at: written, deletedAt }) => [
    published.some(({ id }) => id === record.idPrefix) ? nameIn(record.idPrefix) : "",
    record.rootUntil ? rel(record.rootUntil) : "",
    since(written),
    since(deletedAt),
  ]);
  const taints = store.taints.map(({ record, at: written }) => {
    const isNamed = published.some(({ id }) => id === record.id);
    const known = isNamed ? [nameIn(record.id), rel(record.taintedAt), rel(record.retiresAt)] : [];
    return [...known, since(written), tickOf(record.retiresAt) <= now];
  });
  const excused = -2 * (world.leaf + world.propagation + world.skew) - 1;
  const numbers = (sequence: number): number => sequence - at(now).getTime();
  const named = (content: string): readonly number[] => content.split(",").map(nameIn);
  const given = answers
    .filter((each) => now - each.at < world.leaf)
    .map((each) => [
      each.at - now,
      nameIn(each.issuer),
      nameIn(each.root),
      [...each.bundle].map(nameIn),
    ]);
  return JSON.stringify([
    authorities,
    others,
    lines,
    taints,
    given,
    sorted(contents).map(([sequence, { content, at: last }]) => [
      numbers(sequence),
      named(content),
      last - now,
    ]),
    settled && [numbers(settled.sequence), named(settled.content)],
    dueSince === undefined ? "" : dueSince - now,
    madeAt === undefined ? "" : madeAt - now,
    tainting ? [nameIn(tainting.id), Math.max(tainting.at - now, excused), tainting.departure] : "",
    left,
    Math.max(-now, -3 * world.propagation - world.leaf - world.skew - 1),
    nameIn(`company ${state.company}`),
  ]);
}

const sorted = (contents: State["contents"]) => [...contents].toSorted(([a], [b]) => a - b);

/** As the planner orders them; of one instant, by their names, which it compares as well. */
function byOrder(
  { record: a }: Written<PublishedAuthority>,
  { record: b }: Written<PublishedAuthority>,
): number {
  const [one, other] = [a, b].map(({ schedule }) => Object.values(schedule).map(Number).join());
  if (one !== other) return (one ?? "") < (other ?? "") ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
