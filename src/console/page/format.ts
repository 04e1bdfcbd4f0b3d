import { html } from "hono/html";

/** HTML in which every text is escaped. */
export type Markup = ReturnType<typeof html>;

const longestText = 512;

/** Renders untrusted text: cut to 512 characters, and isolated, so that it cannot change the direction of the text around it. */
export const foreign = (text: string): Markup => html`<bdi>${text.slice(0, longestText)}</bdi>`;

/** Renders the beginning of an id or a fingerprint, with all of it as the tooltip. */
export const shortHex = (hex: string, length = 12): Markup =>
  html`<code title="${hex}">${hex.slice(0, length)}</code>`;

/** `2026-11-22 09:30`, in UTC. */
export const instantText = (at: Date): string => at.toISOString().slice(0, 16).replace("T", " ");

const dash: Markup = html`<span class="quiet" aria-label="none">–</span>`;

/** Renders an instant in UTC, and how far it is from `now`; a dash for `undefined`. */
export function instant(at: Date | undefined, now: Date): Markup {
  if (!at) return dash;
  return html`${plainInstant(at)} <span class="quiet">${distance(at, now)}</span>`;
}

/** {@link instant} in two lines, for narrow columns. */
export function stackedInstant(at: Date | undefined, now: Date): Markup {
  if (!at) return dash;
  return html`${plainInstant(at)}<div class="quiet">${distance(at, now)}</div>`;
}

/** Renders an instant in UTC alone; a dash for `undefined`. */
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

/** The distance as `in 3 days` or `2 hours ago`, in the largest unit of which there are at least two; minutes are the smallest. */
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

/** Formats a count with narrow spaces between thousands. */
export const count = (number: number): string => String(number).replace(grouping, "\u202f");

/** Renders a table that scrolls if it is wider than the screen. @param name Of the table, for screen readers. */
export const table = (name: string, head: Markup, rows: readonly Markup[]): Markup =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table"><table>
    <thead>${head}</thead>
    <tbody>${rows}</tbody></table></div>`;

/** Renders a state as a word with a mark, so that it does not rely on colour. */
export function badge(tone: "good" | "warn" | "bad" | "plain", text: string): Markup {
  return html`<span class="badge ${tone}">${text}</span>`;
}
