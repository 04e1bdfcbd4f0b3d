import { html } from "hono/html";
import {
  type Authority,
  type GetStatusResponse,
  Authority_Kind as Kind,
  Phase,
  type Signer,
} from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, foreign, instant, type Markup, nowOf, plainInstant, shortHex } from "./format.ts";
import { eventSentence } from "./overview.ts";
import { phaseNames } from "./phases.ts";
import { timeLine } from "./time-line.ts";

const maximumEvents = 12;

/** Every authority: its phases on a time line, its instants in a table, and what comes. */
export function authorities(status: GetStatusResponse): Markup {
  const now = nowOf(status);
  return html`${status.signers.map((signer) => signerPart(signer, now))}`;
}

function signerPart(signer: Signer, now: Date): Markup {
  const { name, authorities, events } = signer;
  return html`
    ${name === "" ? "" : html`<h3>Signer ${foreign(name)}</h3>`}
    ${timeLine(signer, now)}
    ${authorities.length === 0 ? html`<p class="quiet">The store holds no authority.</p>` : table(authorities)}
    ${
      events.length === 0
        ? ""
        : html`<h3>What happens next</h3>
    <ol class="events">
      ${events.slice(0, maximumEvents).map((event) => html`<li>${instant(event.at, now)} <span>${eventSentence(event)}</span></li>`)}
    </ol>`
    }`;
}

function table(authorities: readonly Authority[]): Markup {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Authorities, table"><table>
    <thead><tr><th scope="col">Authority</th><th scope="col">Phase</th><th scope="col">Key</th>
      <th scope="col">Published</th><th scope="col">Signs from</th><th scope="col">Signs until</th>
      <th scope="col">Leaves the bundle</th><th scope="col">SHA-256</th></tr></thead>
    <tbody>${authorities.map(row)}</tbody></table></div>`;
}

function row(authority: Authority): Markup {
  const { id, kind, key, fingerprint } = authority;
  const isRoot = kind === Kind.ADDITIONAL_ROOT;
  const never = html`<span class="quiet">never</span>`;
  return html`<tr><th scope="row">${shortHex(id)}</th><td>${phaseBadge(authority)}</td>
    <td>${isRoot ? html`<span class="quiet">root</span>` : key}</td>
    <td>${plainInstant(authority.publishedFrom)}</td>
    <td>${isRoot ? never : plainInstant(authority.signsFrom)}</td>
    <td>${isRoot ? never : signsUntil(authority)}</td>
    <td>${plainInstant(authority.retiresAt)}</td><td>${shortHex(fingerprint, 16)}</td></tr>`;
}

/** A taint cuts the schedule, so that the schedule no longer shows when the authority stopped. */
function signsUntil({ tainted, taintedAt, signsUntil }: Authority): Markup {
  if (!tainted) return plainInstant(signsUntil);
  return taintedAt ? html`tainted ${plainInstant(taintedAt)}` : html`tainted by configuration`;
}

function phaseBadge({ phase, signs, tainted }: Authority): Markup {
  const name = phaseNames[phase] ?? "unknown";
  if (tainted) return badge("bad", `${name}, tainted`);
  if (signs) return badge("good", "signs now");
  return badge(phase === Phase.SIGNING ? "good" : "plain", name);
}
