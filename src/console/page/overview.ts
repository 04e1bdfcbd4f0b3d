import { timestampDate } from "@bufbuild/protobuf/wkt";
import { html } from "hono/html";
import type { Authority, Event, GetStatusResponse } from "../../gen/rampart/status/v1/status_pb.ts";
import { NextStep_Act as Act, Event_What as What } from "../../gen/rampart/status/v1/status_pb.ts";
import { badge, count, foreign, instant, type Markup, nowOf, shortHex } from "./format.ts";

/** The part that an operator looks for first: who signs, until when, and what comes next. */
export function overview(status: GetStatusResponse): Markup {
  const now = nowOf(status);
  const [own] = status.signers;
  const signing = own?.authorities.find(({ signs }) => signs);
  const [next] = own?.events ?? [];
  return html`
    <div class="cards">
      <div class="card">
        <h2>Signing now</h2>
        ${
          signing
            ? signingCard(signing, now)
            : html`<p class="big">${badge("bad", "nobody")}</p>
        <p>No certificate can be issued at this time.</p>`
        }
      </div>
      <div class="card">
        <h2>Next</h2>
        ${next ? nextCard(next, now) : html`<p class="quiet">Nothing comes by itself.</p>`}
      </div>
      <div class="card">
        <h2>Certificates, last hour</h2>
        ${hourCard(status)}
      </div>
    </div>
    ${attention(status)}${nextStep(status, now)}`;
}

function signingCard(authority: Authority, now: Date): Markup {
  return html`<p class="big">${shortHex(authority.id)}</p>
    <dl>
      <dt>Since</dt><dd>${instant(authority.signsFrom, now)}</dd>
      <dt>Until</dt><dd>${instant(authority.signsUntil, now)}</dd>
    </dl>`;
}

function nextCard(event: Event, now: Date): Markup {
  return html`<p class="big">${eventSentence(event)}</p>
    <dl><dt>When</dt><dd>${instant(event.at, now)}</dd></dl>`;
}

function hourCard({ issuance }: GetStatusResponse): Markup {
  if (!issuance?.since) return html`<p class="quiet">Not counted here.</p>`;
  const sum = (outcome: "issued" | "refused" | "failed"): number =>
    issuance.clusters.reduce((total, { lastHour }) => total + (lastHour?.[outcome] ?? 0), 0);
  const issued = html`<p class="big">${count(sum("issued"))} issued</p>`;
  if (issuance.issuedOnly)
    return html`${issued}<p class="quiet">Refused and failed calls are not counted here.</p>`;
  return html`${issued}
    <dl>
      <dt>Refused</dt><dd>${count(sum("refused"))}</dd>
      <dt>Failed</dt><dd>${count(sum("failed"))}</dd>
    </dl>`;
}

function attention({ needsAttention }: GetStatusResponse): Markup {
  if (needsAttention.length === 0) return html``;
  return html`<div class="attention" role="status">
    <h2>Needs attention</h2>
    <ul>${needsAttention.map((sentence) => html`<li>${foreign(sentence)}</li>`)}</ul>
  </div>`;
}

const acts: Readonly<Record<number, string>> = {
  [Act.REQUEST]: "Request the next intermediate: rampart authority request.",
  [Act.INSTALL]: "Install the certificate of the open request: rampart authority install.",
  [Act.ASK]: "The cron asks the CA upstream for the next intermediate.",
};

function nextStep({ signers }: GetStatusResponse, now: Date): Markup {
  const step = signers.find(({ name }) => name === "")?.nextStep;
  if (!step) return html``;
  const isDue = !step.due || timestampDate(step.due) <= now;
  return html`<div class="${isDue ? "attention" : "note"}">
    <h2>Next step under your own root</h2>
    <p>${acts[step.act] ?? ""}</p>
    <dl>
      <dt>Due</dt><dd>${step.due ? instant(step.due, now) : "now"}</dd>
      <dt>Deadline</dt><dd>${instant(step.deadline, now)}</dd>
    </dl>
  </div>`;
}

const whats: Readonly<Record<number, string>> = {
  [What.MINTED]: "is minted",
  [What.PUBLISHED]: "is published",
  [What.SIGNS]: "begins to sign",
  [What.STOPS_SIGNING]: "stops signing",
  [What.LEAVES_BUNDLE]: "leaves the bundle",
};

/** An event as a sentence, such as `3f2a… begins to sign`. */
export function eventSentence({ authority, what }: Event): Markup {
  const who = authority === "next" ? html`The next authority` : shortHex(authority);
  return html`${who} ${whats[what] ?? "changes"}`;
}
