import { html } from "hono/html";
import {
  type LogEntry,
  LogState,
  type SearchLogResponse,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { count, foreign, type Markup, shortHex, stackedInstant } from "./format.ts";

/** The part of the page about the issuance log: a search, which also works without JavaScript. */
export function log(state: LogState, query: string, results: Markup | string): Markup {
  switch (state) {
    case LogState.READABLE:
      return html`<form method="get" action="/" role="search" id="log-search">
        <label for="q">SPIFFE ID, serial number, cluster, node or pod</label>
        <div class="field"><input type="search" id="q" name="q" value="${query}" maxlength="256" autocomplete="off" spellcheck="false">
        <button type="submit">Search</button></div>
      </form>
      <div id="log-entries" aria-live="polite">${results}</div>`;
    case LogState.CLOSED:
      return html`<p class="quiet">Certificates are logged. Their entries are shown only to operators with a credential: set <code>CONSOLE_TOKENS</code>.</p>`;
    default:
      return html`<p class="quiet">Certificates are not logged. <code>LOG_ORIGIN</code> turns the issuance log on.</p>`;
  }
}

/** The entries that a search has found. */
export function logEntries({ entries, searched, total }: SearchLogResponse, now: Date): Markup {
  const scope = html`<p class="quiet">Looked at ${count(searched)} of ${count(total)} entries, the newest first. <code>rampart log</code> searches and verifies all of them.</p>`;
  if (entries.length === 0) return html`<p>No entry matches.</p>${scope}`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Entries of the log, table"><table>
    <thead><tr><th scope="col">Time</th><th scope="col">Name</th><th scope="col">Cluster, node</th>
      <th scope="col">Proof</th><th scope="col">Serial number</th><th scope="col">Valid until</th><th scope="col" class="number">Index</th></tr></thead>
    <tbody>${entries.map((entry) => row(entry, now))}</tbody></table></div>${scope}`;
}

function row(entry: LogEntry, now: Date): Markup {
  const { at, name, cluster, pod, node, proof, serialNumber, notAfter, index, origin } = entry;
  return html`<tr><td>${stackedInstant(at, now)}</td><th scope="row" class="wrap">${foreign(name)}${pod === "" ? "" : html`<div class="quiet">pod ${foreign(pod)}</div>`}</th>
    <td>${foreign(cluster)}${node === "" ? "" : html`<div class="quiet">${foreign(node)}</div>`}</td>
    <td>${foreign(proof)}</td><td>${shortHex(serialNumber, 16)}</td>
    <td>${stackedInstant(notAfter, now)}</td><td class="number"><span title="${origin}">${count(index)}</span></td></tr>`;
}
