import { html } from "hono/html";
import {
  type GetStatusResponse,
  Finding_Severity as Severity,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, foreign, type Markup } from "./format.ts";

const severities: Readonly<Record<number, Markup>> = {
  [Severity.NOTE]: badge("plain", "note"),
  [Severity.WARNING]: badge("warn", "warning"),
  [Severity.ERROR]: badge("bad", "error"),
};

/** The findings of a checkup, each with its reason and its remedy. */
export function checkup({ checkup }: GetStatusResponse): Markup {
  const findings = checkup?.findings ?? [];
  return html`<p class="quiet">Of the records, the configuration, and what this CA knows of its issuers and clusters. <code>rampart doctor</code> looks further: it asks issuers and API servers anew, and looks at clocks, files and versions.</p>
    ${findings.length === 0 ? html`<p>${badge("good", "healthy")} Nothing was found.</p>` : ""}
    <ul class="findings">${findings.map(
      ({
        name,
        severity,
        what,
        why,
        remedy,
      }) => html`<li>${severities[severity] ?? ""} <strong>${foreign(what)}</strong>
      <div>${foreign(why)}</div>${remedy === "" ? "" : html`<pre><code>${remedy}</code></pre>`}
      <div class="quiet">${name}</div></li>`,
    )}</ul>`;
}
