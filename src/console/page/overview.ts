import { html } from "hono/html";
import type { ForecastEvent } from "../../ca/rotation/forecast.ts";
import { type AuthorityStatus, nextActs, SignerStatus } from "../../status/authorities.ts";
import { Finding } from "../../status/finding.ts";
import type { CaStatus } from "../../status/status.ts";
import { badge, count, foreign, instant, type Markup, shortHex } from "./format.ts";

/**
 * Renders what an operator looks for first: which of the CA's own authorities signs, until when, and what comes next; the
 * calls of the last hour; and what needs attention.
 */
export function overview(status: CaStatus): Markup {
  const { now } = status;
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
    ${attention(status)}${nextStep(status)}`;
}

function signingCard({ id, schedule }: AuthorityStatus, now: Date): Markup {
  return html`<p class="big">${shortHex(id)}</p>
    <dl>
      <dt>Since</dt><dd>${instant(schedule.signsFrom, now)}</dd>
      <dt>Until</dt><dd>${instant(schedule.signsUntil, now)}</dd>
    </dl>`;
}

function nextCard(event: ForecastEvent, now: Date): Markup {
  return html`<p class="big">${eventSentence(event)}</p>
    <dl><dt>When</dt><dd>${instant(event.at, now)}</dd></dl>`;
}

function hourCard({ issuance }: CaStatus): Markup {
  if (!issuance.since) return html`<p class="quiet">Not counted here.</p>`;
  const sum = (outcome: "issued" | "refused" | "failed"): string =>
    count(issuance.clusters.reduce((total, { lastHour }) => total + lastHour[outcome], 0));
  const issued = html`<p class="big">${sum("issued")} issued</p>`;
  if (issuance.issuedOnly)
    return html`${issued}<p class="quiet">Refused and failed calls are not counted here.</p>`;
  return html`${issued}
    <dl>
      <dt>Refused</dt><dd>${sum("refused")}</dd>
      <dt>Failed</dt><dd>${sum("failed")}</dd>
    </dl>`;
}

function attention({ needsAttention }: CaStatus): Markup {
  if (needsAttention.length === 0) return html``;
  return html`<div class="attention" role="status">
    <h2>Needs attention</h2>
    <ul>${needsAttention.map((sentence) => html`<li>${foreign(sentence)}</li>`)}</ul>
  </div>`;
}

function nextStep({ signers, now }: CaStatus): Markup {
  const step = signers.find(({ name }) => name === "")?.nextStep;
  if (!step) return html``;
  const { what, command } = nextActs[step.act];
  const sentence = `${what.charAt(0).toUpperCase()}${what.slice(1)}${command ? `: ${command}` : ""}.`;
  return html`<div class="${SignerStatus.isStepDue(step, now) ? "attention" : "note"}">
    <h2>Next step under your own root</h2>
    <p>${sentence}</p>
    <dl>
      <dt>Due</dt><dd>${step.due ? instant(step.due, now) : "now"}</dd>
      <dt>Deadline</dt><dd>${instant(step.deadline, now)}</dd>
    </dl>
  </div>`;
}

const verbs: Readonly<Record<ForecastEvent["event"], string>> = {
  minted: "is minted",
  published: "is published",
  signs: "begins to sign",
  "stops signing": "stops signing",
  "leaves bundle": "leaves the bundle",
};

/** Renders an event as a sentence, such as `3f2a… begins to sign`. */
export function eventSentence({ id, event }: ForecastEvent): Markup {
  return html`${id === "next" ? html`The next authority` : shortHex(id)} ${verbs[event]}`;
}

const severities: Readonly<Record<Finding["severity"], Markup>> = {
  note: badge("plain", "note"),
  warning: badge("warn", "warning"),
  error: badge("bad", "error"),
};

/** Renders the findings, each with its reason and its remedy. @param typed Makes a command act on this CA. */
export function checkup(
  { findings, ready, needsAttention }: CaStatus,
  typed: (words: string) => string,
): Markup {
  const isWell = ready && needsAttention.length === 0;
  return html`<p class="quiet">Of the records, the configuration, and what this CA knows of its issuers and clusters. <code>rampart doctor</code> looks further: it asks issuers and API servers anew, and looks at clocks, files and versions.</p>
    ${findings.length === 0 ? html`<p>${isWell ? badge("good", "healthy") : ""} Nothing was found.</p>` : ""}
    <ul class="findings">${findings.map(
      ({
        name,
        severity,
        what,
        why,
        remedy,
      }) => html`<li>${severities[severity]} <strong>${foreign(what)}</strong>
      <div>${foreign(why)}</div>${remedyPart(Finding.withCommands(remedy, typed))}
      <div class="quiet">${name}</div></li>`,
    )}</ul>`;
}

/** Matches a remedy that is only a command. */
const commandPattern = /^`([^`]+)`$/;

function remedyPart(remedy: string): Markup {
  const [, command] = commandPattern.exec(remedy) ?? [];
  if (command !== undefined) return html`<pre><code>${command}</code></pre>`;
  const parts = remedy.split("`");
  return html`<p>→ ${parts.map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : foreign(part)))}</p>`;
}
