import { timestampDate } from "@bufbuild/protobuf/wkt";
import { html } from "hono/html";
import {
  type Authority,
  type Event,
  Authority_Kind as Kind,
  Phase,
  type Signer,
  Event_What as What,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { instantText, type Markup } from "./format.ts";
import { phaseNames } from "./phases.ts";
import { type Range, rangeOf, ticksOf } from "./time-range.ts";

/** One line: an authority, or the next one, which is not minted yet. */
interface Lane {
  readonly label: Markup;
  readonly title: string;
  readonly bars: readonly Bar[];
}

interface Bar {
  readonly kind: "published" | "signing" | "verifying" | "root" | "planned";
  readonly from: Date;
  readonly until: Date;
}

/** The phases of every authority of a signer on one axis, with today in it. */
export function timeLine(signer: Signer, now: Date): Markup {
  const lanes = [...signer.authorities.filter(isLive).map(laneOf), ...plannedLane(signer.events)];
  if (lanes.length === 0) return html``;
  const range = rangeOf(
    lanes.flatMap(({ bars }) => bars.filter(({ kind }) => kind !== "root")),
    now,
  );
  return html`<figure class="timeline" aria-label="Phases of the authorities over time">
    <div class="lane axis"><div class="who"></div>${axis(range, now)}</div>
    ${lanes.map((lane) => laneMarkup(lane, range, now))}
    <figcaption>${legendOf(lanes)}</figcaption>
  </figure>`;
}

const legend: readonly (readonly [Bar["kind"], string])[] = [
  ["published", "published"],
  ["signing", "signing"],
  ["verifying", "verifying"],
  ["root", "additional root"],
  ["planned", "planned"],
];

function legendOf(lanes: readonly Lane[]): Markup {
  const shown = new Set(lanes.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  const keys = legend.filter(([kind]) => shown.has(kind));
  return html`${keys.map(([kind, text]) => html`<span class="key ${kind}">${text}</span> `)}<span class="key today">today</span>`;
}

const isLive = ({ phase }: Authority): boolean => phase !== Phase.RETIRED;

function laneOf(authority: Authority): Lane {
  const { id, kind, signs, phase, tainted } = authority;
  const [published, from, until, retires] = [
    authority.publishedFrom,
    authority.signsFrom,
    authority.signsUntil,
    authority.retiresAt,
  ].map((at) => (at ? timestampDate(at) : new Date(0))) as [Date, Date, Date, Date];
  const isRoot = kind === Kind.ADDITIONAL_ROOT;
  const bars: readonly Bar[] = isRoot
    ? [{ kind: "root", from: published, until: retires }]
    : [
        { kind: "published", from: published, until: from },
        { kind: "signing", from, until },
        { kind: "verifying", from: until, until: retires },
      ];
  const state = signs ? "signs now" : isRoot ? "additional root" : phaseNames[phase];
  const title = isRoot
    ? `${id.slice(0, 12)}, in the bundle from ${instantText(published)} until ${instantText(retires)}`
    : `${id.slice(0, 12)}: published ${instantText(published)}, signs from ${instantText(from)} until ${instantText(until)}, leaves the bundle ${instantText(retires)} UTC`;
  const label = html`<code title="${id}">${id.slice(0, 12)}</code> <span class="quiet">${state}${tainted ? ", tainted" : ""}</span>`;
  return { label, title, bars };
}

function plannedLane(events: readonly Event[]): Lane[] {
  const at = (what: What): Date | undefined => {
    const found = events.find((event) => event.authority === "next" && event.what === what)?.at;
    return found && timestampDate(found);
  };
  const [from, until] = [at(What.PUBLISHED), at(What.LEAVES_BUNDLE)];
  if (!from || !until) return [];
  const minted = at(What.MINTED) ?? from;
  const title = `the next authority: minted ${instantText(minted)}, published ${instantText(from)}, leaves the bundle ${instantText(until)} UTC`;
  const label = html`next <span class="quiet">not minted yet</span>`;
  return [{ label, title, bars: [{ kind: "planned", from, until }] }];
}

function laneMarkup({ label, title, bars }: Lane, range: Range, now: Date): Markup {
  const marks = bars.map(({ kind, from, until }) => {
    const [start, end] = [range.percent(from), range.percent(until)];
    if (end <= start) return "";
    return html`<rect class="${kind}" x="${start}%" width="${end - start}%" y="7" height="14" rx="3"/>`;
  });
  return html`<div class="lane"><div class="who">${label}</div>
    <svg role="img" aria-label="${title}" height="28"><title>${title}</title>
      ${ticksOf(range).map(({ percent }) => html`<line class="grid" x1="${percent}%" x2="${percent}%" y1="0" y2="28"/>`)}
      ${marks}${todayLine(range, now, 28)}</svg></div>`;
}

function todayLine(range: Range, now: Date, height: number): Markup {
  const x = range.percent(now);
  return html`<line class="today" x1="${x}%" x2="${x}%" y1="0" y2="${height}"/>`;
}

function axis(range: Range, now: Date): Markup {
  const today = range.percent(now);
  // A tick's text too close to today's would lie over it.
  const ticks = ticksOf(range).filter(({ percent }) => Math.abs(percent - today) > 9);
  return html`<svg aria-hidden="true" height="24">
    ${ticks.map(({ percent, text }) => html`<text class="tick" x="${percent}%" y="15" text-anchor="${anchorAt(percent)}">${text}</text>`)}
    <text class="tick now" x="${today}%" y="15" text-anchor="${anchorAt(today)}">today</text></svg>`;
}

function anchorAt(percent: number): "start" | "middle" | "end" {
  if (percent < 6) return "start";
  return percent > 94 ? "end" : "middle";
}
