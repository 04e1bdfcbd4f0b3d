import { html } from "hono/html";
import type { AuthorityStatus, SignerStatus } from "../../status/authorities.ts";
import type { CaStatus } from "../../status/status.ts";
import { badge, foreign, instant, type Markup, plainInstant, shortHex, table } from "./format.ts";
import { eventSentence } from "./overview.ts";
import { timeLine } from "./time-line.ts";

const maximumEvents = 12;

/** Every authority: its phases on a time line, its instants in a table, and what comes. */
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

/** A taint cuts the schedule, so that the schedule no longer shows when the authority stopped. */
function signsUntil({ isTainted, taintedAt, schedule }: AuthorityStatus): Markup {
  if (!isTainted) return plainInstant(schedule.signsUntil);
  return taintedAt ? html`tainted ${plainInstant(taintedAt)}` : html`tainted by configuration`;
}

function phaseBadge({ phase, signs, isTainted }: AuthorityStatus): Markup {
  if (isTainted) return badge("bad", `${phase}, tainted`);
  if (signs) return badge("good", "signs now");
  return badge(phase === "signing" ? "good" : "plain", phase);
}
