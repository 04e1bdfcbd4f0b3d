import { html } from "hono/html";

/** HTML in which every text is escaped. */
export type Markup = ReturnType<typeof html>;

const longestText = 512;

/** A text of somebody else, cut short, and kept from changing the direction of what is around it. */
export const foreign = (text: string): Markup => html`<bdi>${text.slice(0, longestText)}</bdi>`;

/** The beginning of an id or a fingerprint, with the whole of it for whoever points at it. */
export const shortHex = (hex: string, length = 12): Markup =>
  html`<code title="${hex}">${hex.slice(0, length)}</code>`;

/** `2026-11-22 09:30`, in UTC. */
export const instantText = (at: Date): string => at.toISOString().slice(0, 16).replace("T", " ");

const dash: Markup = html`<span class="quiet" aria-label="none">–</span>`;

/** An instant in UTC, and how far it is from `now`. */
export function instant(at: Date | undefined, now: Date): Markup {
  if (!at) return dash;
  return html`${plainInstant(at)} <span class="quiet">${distance(at, now)}</span>`;
}

/** {@link instant} in two lines, for narrow columns. */
export function stackedInstant(at: Date | undefined, now: Date): Markup {
  if (!at) return dash;
  return html`${plainInstant(at)}<div class="quiet">${distance(at, now)}</div>`;
}

/** An instant in UTC alone. */
export function plainInstant(at: Date | undefined): Markup {
  if (!at) return dash;
  return html`<time datetime="${at.toISOString()}">${instantText(at)}</time>`;
}

const units: readonly (readonly [seconds: number, name: string])[] = [
  [365 * 86_400, "year"],
  [30 * 86_400, "month"],
  [86_400, "day"],
  [3600, "hour"],
  [60, "minute"],
];

/** `in 3 days`, `2 hours ago`: the largest unit of which there are two, so that little is lost. */
export function distance(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1000);
  const span = Math.abs(seconds);
  if (span < 60) return seconds > 0 ? "in a moment" : "just now";
  const [size, name] = units.find(([each]) => span >= 2 * each) ?? [60, "minute"];
  const count = Math.floor(span / size);
  const text = `${count} ${name}${count === 1 ? "" : "s"}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

const grouping = /\B(?=(\d{3})+$)/g;

/** A count with thin spaces between thousands. */
export const count = (number: number): string => String(number).replace(grouping, "\u202f");

/** The frame of a table that may be wider than the screen. @param name Of the table, for a screen reader. */
export const table = (name: string, head: Markup, rows: readonly Markup[]): Markup =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table"><table>
    <thead>${head}</thead>
    <tbody>${rows}</tbody></table></div>`;

/** A state as a word with a mark, which does not rely on colour. */
export function badge(tone: "good" | "warn" | "bad" | "plain", text: string): Markup {
  return html`<span class="badge ${tone}">${text}</span>`;
}
