import { timestampDate } from "@bufbuild/protobuf/wkt";
import { html } from "hono/html";
import {
  type GetStatusResponse,
  type Issuer,
  Issuer_KeyState as State,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, distance, foreign, type Markup, nowOf, stackedInstant } from "./format.ts";

/** The issuers of tokens, and the state of their keys. */
export function issuers(status: GetStatusResponse): Markup {
  const now = nowOf(status);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Issuers, table"><table>
    <thead><tr><th scope="col">Cluster</th><th scope="col">Issuer</th><th scope="col">Keys</th><th scope="col">Known keys</th><th scope="col">Fetched</th></tr></thead>
    <tbody>${status.issuers.map((issuer) => row(issuer, now))}</tbody></table></div>`;
}

const states: Readonly<Record<number, Markup>> = {
  [State.CONFIGURED]: badge("good", "configured"),
  [State.NOT_FETCHED]: badge("plain", "not needed yet"),
  [State.FETCHED]: badge("good", "fetched"),
  [State.STALE]: badge("warn", "older keys serve"),
  [State.UNREACHABLE]: badge("bad", "unreachable"),
};

const shownKeys = 4;

function row(issuer: Issuer, now: Date): Markup {
  const { name, cluster, keys, knownKeys, fetchedAt, failedAt, failure } = issuer;
  const more = knownKeys.length - shownKeys;
  return html`<tr><th scope="row">${foreign(cluster)}</th><td class="wrap">${foreign(name)}</td>
    <td class="state-of">${states[keys] ?? ""}${failedAt ? html`<div class="quiet">${foreign(failure)}, ${distance(timestampDate(failedAt), now)}</div>` : ""}</td>
    <td>${knownKeys.length === 0 ? html`<span class="quiet">none</span>` : knownKeys.slice(0, shownKeys).map(({ id, algorithms }) => html`<div><code title="${id}">${id === "" ? "no key id" : id.slice(0, 16)}</code> <span class="quiet">${algorithms.join(", ")}</span></div>`)}
      ${more > 0 ? html`<div class="quiet">and ${more} more</div>` : ""}</td>
    <td>${stackedInstant(fetchedAt, now)}</td></tr>`;
}
