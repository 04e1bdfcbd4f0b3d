import { html } from "hono/html";
import type { FoundEntry } from "../../status/found-entry.ts";
import type { Calls, Decided, IssuanceStatus, RuleStatus } from "../../status/issuance.ts";
import type { FoundEntries } from "../../status/log-search.ts";
import type { CaStatus } from "../../status/status.ts";
import {
  badge,
  count,
  foreign,
  instant,
  type Markup,
  shortHex,
  stackedInstant,
  table,
} from "./format.ts";

/** Renders the calls for certificates: a column for each hour of the last day, and a row for each cluster; if none are counted, why. */
export function issuance({ issuance, now }: CaStatus): Markup {
  const { since, scope } = issuance;
  if (!since) return html`<p>${scope}</p>`;
  return html`${chart(issuance)}${callsTable(issuance)}
    ${counted(issuance, now)}`;
}

/** Renders what is counted, and since when. */
export const counted = ({ scope, since }: IssuanceStatus, now: Date): Markup =>
  html`<p class="quiet">${scope} Counted since ${instant(since, now)}.</p>`;

const chartHeight = 96;

function chart({ hours, issuedOnly }: IssuanceStatus): Markup {
  const most = Math.max(1, ...hours.map(totalOf));
  const busiest = Math.max(0, ...hours.map(({ issued }) => issued));
  const width = 100 / Math.max(1, hours.length);
  const label = `Calls in each of the last ${hours.length} hours; at most ${busiest} certificates were issued in one`;
  return html`<figure class="chart">
    <svg role="img" aria-label="${label}" height="${chartHeight}">
      ${hours.map((calls, i) => column(calls, i, { most, width, issuedOnly }))}
      <line class="base" x1="0" x2="100%" y1="${chartHeight - 0.5}" y2="${chartHeight - 0.5}"/>
    </svg>
    <figcaption><span>24 hours ago</span><span><span class="key issued">issued</span>
      ${issuedOnly ? "" : html`<span class="key refused">refused or failed</span>`}</span><span>now</span></figcaption>
  </figure>`;
}

function column(
  calls: Calls,
  i: number,
  { most, width, issuedOnly }: Record<"most" | "width", number> & { readonly issuedOnly: boolean },
): Markup {
  const { issued, refused, failed } = calls;
  const heightOf = (calls: number): number =>
    calls === 0 ? 0 : Math.max(2, Math.round((calls / most) * (chartHeight - 6)));
  const [good, bad] = [heightOf(issued), heightOf(refused + failed)];
  const x = `${(i * width + width * 0.15).toFixed(2)}%`;
  const span = `${(width * 0.7).toFixed(2)}%`;
  const others = issuedOnly ? "" : `, ${refused} refused, ${failed} failed`;
  return html`<g><title>${issued} issued${others}</title>
    ${good > 0 ? html`<rect class="issued" x="${x}" width="${span}" y="${chartHeight - good}" height="${good}"/>` : ""}
    ${bad > 0 ? html`<rect class="refused" x="${x}" width="${span}" y="${chartHeight - good - bad}" height="${bad}"/>` : ""}</g>`;
}

const totalOf = ({ issued, refused, failed }: Calls): number => issued + refused + failed;

const outcomes = ["issued", "refused", "failed"] as const;

function callsTable({ clusters, issuedOnly }: IssuanceStatus): Markup {
  if (clusters.length === 0) return html`<p>No call has been counted.</p>`;
  const shown = issuedOnly ? outcomes.slice(0, 1) : outcomes;
  const cell = (calls: number): Markup =>
    html`<td class="number">${calls ? count(calls) : html`<span class="quiet">0</span>`}</td>`;
  const headings = shown.map(
    (each) =>
      html`<th scope="col" class="number">${each.charAt(0).toUpperCase()}${each.slice(1)}</th>`,
  );
  const head = html`<tr><th scope="col" rowspan="2">Cluster</th>${["Last hour", "Last day"].map((each) => html`<th scope="colgroup" colspan="${shown.length}" class="group">${each}</th>`)}</tr>
      <tr>${headings}${headings}</tr>`;
  const rows = clusters.map(
    ({
      cluster,
      lastHour,
      lastDay,
    }) => html`<tr><th scope="row">${cluster === "" ? html`<span class="quiet">not authenticated</span>` : foreign(cluster)}</th>
      ${[lastHour, lastDay].map((calls) => shown.map((outcome) => cell(calls[outcome])))}</tr>`,
  );
  return table("Calls by cluster", head, rows);
}

/** Renders the part about the issuance log: a search, which works without JavaScript, too. */
export function log(state: CaStatus["log"], query: string, results: Markup | string): Markup {
  switch (state) {
    case "readable":
      return html`<form method="get" action="/" role="search" id="log-search">
        <label for="q">SPIFFE ID, serial number, cluster, node or pod</label>
        <div class="field"><input type="search" id="q" name="q" value="${query}" maxlength="256" autocomplete="off" spellcheck="false">
        <button type="submit">Search</button></div>
      </form>
      <div id="log-entries" data-live="log-entries" aria-live="polite">${results}</div>`;
    case "closed":
      return html`<p class="quiet">Certificates are logged. Their entries are shown only to operators with a credential: set <code>CONSOLE_TOKENS</code>.</p>`;
    case "off":
      return html`<p class="quiet">Certificates are not logged. <code>LOG_ORIGIN</code> turns the issuance log on.</p>`;
  }
}

/** Renders the entries that a search has found. */
export function logEntries({ entries, searched, total }: FoundEntries, now: Date): Markup {
  const scope = html`<p class="quiet">Looked at ${count(searched)} of ${count(total)} entries, the newest first. <code>rampart log</code> searches and verifies all of them.</p>`;
  if (entries.length === 0) return html`<p>No entry matches.</p>${scope}`;
  const rows = entries.map((entry) => entryRow(entry, now));
  return html`${table("Entries of the log", entriesHeading, rows)}${scope}`;
}

const entriesHeading = html`<tr><th scope="col">Time</th><th scope="col">Name</th><th scope="col">Cluster, node</th>
      <th scope="col">Proof</th><th scope="col">Serial number</th><th scope="col">Valid until</th><th scope="col" class="number">Index</th></tr>`;

/** Renders since when and why a certificate is distrusted. */
function mark({ distrust }: FoundEntry, now: Date): Markup | "" {
  if (!distrust) return "";
  const { state, since, detail } = distrust;
  return html`<div>${badge("bad", state)} ${since ? stackedInstant(since, now) : ""}${foreign(detail)}</div>`;
}

function entryRow(entry: FoundEntry, now: Date): Markup {
  const { at, name, cluster, pod, node, proof, serialNumber, notAfter, index, origin, audiences } =
    entry;
  return html`<tr><td>${stackedInstant(at, now)}</td><th scope="row" class="wrap">${foreign(name)}${pod === "" ? "" : html`<div class="quiet">pod ${foreign(pod)}</div>`}${audiences.length === 0 ? "" : html`<div class="quiet">token for ${foreign(audiences.join(", "))}</div>`}</th>
    <td>${foreign(cluster)}${node === "" ? "" : html`<div class="quiet">${foreign(node)}</div>`}</td>
    <td>${foreign(proof)}</td><td>${shortHex(serialNumber, 16)}${mark(entry, now)}</td>
    <td>${stackedInstant(notAfter, now)}</td><td class="number"><span title="${origin}">${count(index)}</span></td></tr>`;
}

/** Renders the rules in their order, how often each decided, and what those in shadow would have done. */
export function policy({ rules, issuance, now }: CaStatus): Markup {
  if (rules.length === 0) {
    return html`<p class="quiet">There are no rules. <code>POLICY</code> says who may get what.</p>`;
  }
  const isCounted = rules.some(({ lastHour }) => lastHour);
  const head = html`<tr><th scope="col">Rule</th><th scope="col">When</th><th scope="col">Then</th>
    ${isCounted ? ["Last hour", "Last day"].map((each) => html`<th scope="col">${each}</th>`) : ""}</tr>`;
  const scope = isCounted
    ? counted(issuance, now)
    : html`<p class="quiet">Decisions are not counted here: the issuance log and the dataset CALL_COUNTS have them.</p>`;
  const unit = issuance.issuedOnly ? " issued" : "";
  return html`<p class="quiet">The first rule that fits a request decides. A rule in shadow changes nothing: its numbers are what it would have done.</p>
    ${table(
      "Rules",
      head,
      rules.map((each) => row(each, unit)),
    )}${scope}`;
}

/** Renders a rule. @param unit Follows each number, if not all requests are counted. */
function row({ name, shadow, when, then, ...counts }: RuleStatus, unit: string): Markup {
  const cells = [counts.lastHour, counts.lastDay].flatMap((each) => each ?? []);
  const isUncounted = unit !== "" && !shadow && then.deny !== undefined;
  const uncounted = html`<td class="quiet">refusals are not counted here</td>`;
  return html`<tr><th scope="row">${foreign(name)} ${shadow ? badge("plain", "shadow") : ""}</th>
    <td>${members(when, "any request")}</td><td>${members(then, "nothing changes")}</td>
    ${cells.map((each) => (isUncounted ? uncounted : cell(each, shadow, unit)))}</tr>`;
}

/** Renders the members of a table of the configuration, one on each line, with the units that an operator writes. */
function members(values: object, otherwise: string): Markup {
  const lines = linesOf(values);
  if (lines.length === 0) return html`<span class="quiet">${otherwise}</span>`;
  return html`${lines.map((line) => html`<div>${foreign(line)}</div>`)}`;
}

const linesOf = (values: object, prefix = ""): readonly string[] =>
  Object.entries(values).flatMap(([key, value]) => {
    if (Array.isArray(value)) return [`${prefix}${key}: ${value.join(", ")}`];
    if (typeof value === "object" && value !== null) return linesOf(value, `${key}.`);
    return [`${prefix}${key}: ${typeof value === "number" ? `${value} s` : String(value)}`];
  });

function cell({ requests, denied, changed }: Decided, isShadow: boolean, unit: string): Markup {
  const would = isShadow ? "would be " : "";
  return html`<td>${requests === 0 ? html`<span class="quiet">0${unit}</span>` : `${count(requests)}${unit}`}
    ${denied > 0 ? html`<div>${badge(isShadow ? "warn" : "bad", `${count(denied)} ${would}denied`)}</div>` : ""}
    ${changed > 0 ? html`<div>${count(changed)} ${would}changed</div>` : ""}</td>`;
}
