import { html } from "hono/html";
import type {
  Issuance_Calls as Calls,
  GetStatusResponse,
  Issuance,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { count, foreign, instant, type Markup, nowOf } from "./format.ts";

/** The calls for certificates: a column for each hour of the last day, and a row for each cluster. */
export function issuance(status: GetStatusResponse): Markup {
  const { issuance } = status;
  if (!issuance?.since) return html`<p>${issuance?.scope ?? "Not counted here."}</p>`;
  return html`${chart(issuance)}${table(issuance)}
    <p class="quiet">${issuance.scope} Counted since ${instant(issuance.since, nowOf(status))}.</p>`;
}

const chartHeight = 96;

function chart({ hours, issuedOnly }: Issuance): Markup {
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

interface Scale {
  readonly most: number;
  readonly width: number;
  readonly issuedOnly: boolean;
}

function column(calls: Calls, i: number, { most, width, issuedOnly }: Scale): Markup {
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

function table({ clusters, issuedOnly }: Issuance): Markup {
  if (clusters.length === 0) return html`<p>No call has been counted.</p>`;
  const shown = issuedOnly ? outcomes.slice(0, 1) : outcomes;
  const cell = (calls: number | undefined): Markup =>
    html`<td class="number">${calls ? count(calls) : html`<span class="quiet">0</span>`}</td>`;
  const headings = shown.map(
    (each) =>
      html`<th scope="col" class="number">${each.charAt(0).toUpperCase()}${each.slice(1)}</th>`,
  );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Calls by cluster, table"><table>
    <thead>
      <tr><th scope="col" rowspan="2">Cluster</th>${["Last hour", "Last day"].map((each) => html`<th scope="colgroup" colspan="${shown.length}" class="group">${each}</th>`)}</tr>
      <tr>${headings}${headings}</tr>
    </thead>
    <tbody>${clusters.map(
      ({
        cluster,
        lastHour,
        lastDay,
      }) => html`<tr><th scope="row">${cluster === "" ? html`<span class="quiet">not authenticated</span>` : foreign(cluster)}</th>
      ${[lastHour, lastDay].map((calls) => shown.map((outcome) => cell(calls?.[outcome])))}</tr>`,
    )}</tbody></table></div>`;
}
