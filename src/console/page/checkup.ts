import { html } from "hono/html";
import {
  type GetStatusResponse,
  Finding_Severity as Severity,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, foreign, instant, type Markup, nowOf } from "./format.ts";

const severities: Readonly<Record<number, Markup>> = {
  [Severity.NOTE]: badge("plain", "note"),
  [Severity.WARNING]: badge("warn", "warning"),
  [Severity.ERROR]: badge("bad", "error"),
};

/** What the last checkup found: each finding with its reason and its remedy. */
export function checkup(status: GetStatusResponse): Markup {
  const { checkup } = status;
  if (!checkup) {
    return html`<p class="quiet">No checkup has run here. <code>rampart doctor</code> looks at configuration, keys, clocks and clusters.</p>`;
  }
  const { findings, at } = checkup;
  return html`<p class="quiet">Looked ${instant(at, nowOf(status))}.</p>
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
