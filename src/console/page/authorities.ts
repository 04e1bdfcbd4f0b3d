import { html } from "hono/html";
import type { ForecastEvent } from "../../ca/rotation/forecast.ts";
import type { AuthorityStatus, SignerStatus } from "../../status/authorities.ts";
import type { CaStatus } from "../../status/status.ts";
import {
  badge,
  foreign,
  instant,
  instantText,
  type Markup,
  plainInstant,
  shortHex,
  table,
} from "./format.ts";
import { eventSentence } from "./overview.ts";

const maximumEvents = 12;

/** Renders every authority: its phases on a time line, its instants in a table, and coming events. */
export function authorities({ signers, now }: CaStatus): Markup {
  return html`${signers.map((signer) => signerPart(signer, now))}`;
}

function signerPart(signer: SignerStatus, now: Date): Markup {
  const { name, authorities, events, unopened } = signer;
  return html`
    ${name === "" ? "" : html`<h3>Signer ${foreign(name)}</h3>`}
    ${timeLine(signer, now)}
    ${authorities.length === 0 ? html`<p class="quiet">${unopened ?? "The store holds no authority."}</p>` : table("Authorities", heading, authorities.map(row))}
    ${
      events.length === 0
        ? ""
        : html`<h3>What happens next</h3>
    <ol class="events">
      ${events.slice(0, maximumEvents).map((event) => html`<li>${instant(event.at, now)} <span>${eventSentence(event)}</span></li>`)}
    </ol>`
    }`;
}

const heading = html`<tr><th scope="col">Authority</th><th scope="col">Phase</th><th scope="col">Key</th>
      <th scope="col">Published</th><th scope="col">Signs from</th><th scope="col">Signs until</th>
      <th scope="col">Leaves the bundle</th><th scope="col">SHA-256</th></tr>`;

function row(authority: AuthorityStatus): Markup {
  const { id, key, fingerprint, schedule } = authority;
  const never = html`<span class="quiet">never</span>`;
  return html`<tr><th scope="row">${shortHex(id)}</th><td>${phaseBadge(authority)}</td>
    <td>${key ?? html`<span class="quiet">root</span>`}</td>
    <td>${plainInstant(schedule.publishedFrom)}</td>
    <td>${key ? plainInstant(schedule.signsFrom) : never}</td>
    <td>${key ? signsUntil(authority) : never}</td>
    <td>${plainInstant(schedule.retiresAt)}</td><td>${shortHex(fingerprint, 16)}</td></tr>`;
}

/** Renders the end of signing. A tainted authority stops at its taint, not at the end of its schedule. */
function signsUntil({ isTainted, taintedAt, schedule }: AuthorityStatus): Markup {
  if (!isTainted) return plainInstant(schedule.signsUntil);
  return taintedAt ? html`tainted ${plainInstant(taintedAt)}` : html`tainted by configuration`;
}

function phaseBadge({ phase, signs, isTainted }: AuthorityStatus): Markup {
  if (isTainted) return badge("bad", `${phase}, tainted`);
  if (signs) return badge("good", "signs now");
  return badge(phase === "signing" ? "good" : "plain", phase);
}

/** One row of the time line: an authority, or the next one, which is not minted yet. */
interface Row {
  readonly label: Markup;
  readonly title: string;
  readonly bars: readonly Bar[];
}

interface Bar {
  readonly kind: "published" | "signing" | "verifying" | "root" | "planned";
  readonly from: Date;
  readonly until: Date;
}

/**
 * Renders the phases of every live authority and root of a signer, and of the next one, on one axis, with `now` marked;
 * nothing if there is none.
 */
export function timeLine(signer: SignerStatus, now: Date): Markup {
  const rows = [...signer.authorities.filter(isLive).map(rowOf), ...plannedRow(signer.events)];
  if (rows.length === 0) return html``;
  const range = rangeOf(
    rows.flatMap(({ bars }) => bars.filter(({ kind }) => kind !== "root")),
    now,
  );
  return html`<figure class="timeline" aria-label="Phases of the authorities over time">
    <div class="lane axis"><div class="who"></div>${axis(range, now)}</div>
    ${rows.map((row) => rowMarkup(row, range, now))}
    <figcaption>${legendOf(rows)}</figcaption>
  </figure>`;
}

const legend: readonly (readonly [Bar["kind"], string])[] = [
  ["published", "published"],
  ["signing", "signing"],
  ["verifying", "verifying"],
  ["root", "additional root"],
  ["planned", "planned"],
];

function legendOf(rows: readonly Row[]): Markup {
  const shown = new Set(rows.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  const keys = legend.filter(([kind]) => shown.has(kind));
  return html`${keys.map(([kind, text]) => html`<span class="key ${kind}">${text}</span> `)}<span class="key today">today</span>`;
}

const isLive = ({ phase }: AuthorityStatus): boolean => phase !== "retired";

function rowOf({ id, key, signs, phase, isTainted, schedule }: AuthorityStatus): Row {
  const { publishedFrom, signsFrom, signsUntil, retiresAt } = schedule;
  const [published, from, until, retires] = [publishedFrom, signsFrom, signsUntil, retiresAt].map(
    instantText,
  );
  const bars: readonly Bar[] = key
    ? [
        { kind: "published", from: publishedFrom, until: signsFrom },
        { kind: "signing", from: signsFrom, until: signsUntil },
        { kind: "verifying", from: signsUntil, until: retiresAt },
      ]
    : [{ kind: "root", from: publishedFrom, until: retiresAt }];
  const state = signs ? "signs now" : key ? phase : "additional root";
  const title = key
    ? `${id.slice(0, 12)}: published ${published}, signs from ${from} until ${until}, leaves the bundle ${retires} UTC`
    : `${id.slice(0, 12)}, in the bundle from ${published} until ${retires}`;
  const label = html`<code title="${id}">${id.slice(0, 12)}</code> <span class="quiet">${state}${isTainted ? ", tainted" : ""}</span>`;
  return { label, title, bars };
}

function plannedRow(events: readonly ForecastEvent[]): Row[] {
  const at = (what: ForecastEvent["event"]): Date | undefined =>
    events.find(({ id, event }) => id === "next" && event === what)?.at;
  const [from, until] = [at("published"), at("leaves bundle")];
  if (!from || !until) return [];
  const minted = at("minted") ?? from;
  const title = `the next authority: minted ${instantText(minted)}, published ${instantText(from)}, leaves the bundle ${instantText(until)} UTC`;
  const label = html`next <span class="quiet">not minted yet</span>`;
  return [{ label, title, bars: [{ kind: "planned", from, until }] }];
}

function rowMarkup({ label, title, bars }: Row, range: Range, now: Date): Markup {
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
  // Leaves out ticks whose text would overlap today's. A narrow screen shows every other one.
  const ticks = ticksOf(range)
    .map((tick, i) => ({ ...tick, distance: Math.abs(tick.percent - today), isOdd: i % 2 === 1 }))
    .filter(({ distance }) => distance > 13);
  return html`<svg aria-hidden="true" height="24">
    ${ticks.map(({ percent, text, distance, isOdd }) => html`<text class="tick${isOdd || distance < 24 ? " spare" : ""}" x="${percent}%" y="15" text-anchor="${anchorAt(percent)}">${text}</text>`)}
    <text class="tick now" x="${today}%" y="15" text-anchor="${anchorAt(today)}">today</text></svg>`;
}

function anchorAt(percent: number): "start" | "middle" | "end" {
  if (percent < 6) return "start";
  return percent > 94 ? "end" : "middle";
}

/** The range of time that the time line shows. */
type Range = ReturnType<typeof rangeOf>;

/** The range from before the earliest to after the latest of `now` and all bars, with a margin. */
export function rangeOf(stretches: readonly Pick<Bar, "from" | "until">[], now: Date) {
  const times = [now, ...stretches.flatMap(({ from, until }) => [from, until])].map(Number);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const margin = Math.max(60_000, (last - first) * 0.02);
  const [from, until] = [first - margin, last + margin];
  /** The position of an instant, from 0 to 100, with one decimal; instants outside of the range are at its edge. */
  const percent = (at: Date): number => {
    const share = (at.getTime() - from) / (until - from);
    return Math.round(1000 * Math.min(1, Math.max(0, share))) / 10;
  };
  return { from: new Date(from), until: new Date(until), percent };
}

const hour = 3_600_000;
const day = 24 * hour;
const mostTicks = 6;

/** Steps between ticks that divide a day; ticks are aligned to days in UTC. */
const shortSteps: readonly number[] = [1, 3, 6, 12].map((hours) => hours * hour);
const daySteps: readonly number[] = [1, 2, 7, 14].map((days) => days * day);
const monthSteps: readonly number[] = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600];

/** The ticks of the axis, at most seven, at round instants: each with its place in percent, and its text. */
export function ticksOf(range: Range) {
  const span = range.until.getTime() - range.from.getTime();
  const step = [...shortSteps, ...daySteps].find((each) => span / each <= mostTicks);
  const instants = step === undefined ? months(range) : multiples(range, step);
  const isShort = step !== undefined && step < day;
  return instants.map((at) => ({
    percent: range.percent(at),
    text: isShort ? at.toISOString().slice(11, 16) : dayText(at, step === undefined),
  }));
}

function multiples({ from, until }: Range, step: number): Date[] {
  const instants: Date[] = [];
  for (let at = Math.ceil(from.getTime() / step) * step; at <= until.getTime(); at += step) {
    instants.push(new Date(at));
  }
  return instants;
}

function months({ from, until }: Range): Date[] {
  const spanMonths = (until.getTime() - from.getTime()) / (30.44 * day);
  const step = monthSteps.find((each) => spanMonths / each <= mostTicks) ?? 1200;
  const first = Math.ceil((from.getUTCFullYear() * 12 + from.getUTCMonth() + 1) / step) * step;
  return Array.from({ length: mostTicks + 1 }, (_, i) => first + i * step)
    .map((month) => new Date(Date.UTC(Math.floor(month / 12), month % 12)))
    .filter((at) => at <= until);
}

const monthNames = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function dayText(at: Date, isMonth: boolean): string {
  const month = monthNames[at.getUTCMonth()];
  return isMonth ? `${month} ${at.getUTCFullYear()}` : `${at.getUTCDate()} ${month}`;
}
