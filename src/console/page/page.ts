import { html, raw } from "hono/html";
import type { CaStatus } from "../../status/status.ts";
import { authorities } from "./authorities.ts";
import { issuance, log } from "./certificates.ts";
import { badge, foreign, instantText, type Markup } from "./format.ts";
import { checkup, overview } from "./overview.ts";
import { style } from "./style.ts";
import { issuers, trust } from "./trust.ts";

/** All that a page shows. */
export interface PageContent {
  readonly status: CaStatus;
  readonly query: string;
  /** The entries of the log, rendered, or a sentence. */
  readonly logResults: Markup | string;
  /** The script with the live parts; absent where there is none. */
  readonly script?: { readonly path: string; readonly integrity: string } | undefined;
}

/** The whole page. It is complete without its script. */
export function page({ status, query, logResults, script }: PageContent): Markup {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${status.trustDomain} · Rampart</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="/console/icon.svg" type="image/svg+xml">
<style>${raw(style)}</style>
${script ? html`<script type="module" src="${script.path}" integrity="${script.integrity}"></script>` : ""}
</head>
<body>
<a class="skip" href="#main">Skip to the status</a>
<header>
  <div class="brand">${raw(mark)}<span>Rampart</span></div>
  <h1>${foreign(status.trustDomain)}</h1>
  <div class="state" id="state" data-live="state">${state(status)}</div>
</header>
<nav aria-label="Parts of this page">
  ${sections.filter(({ heading }) => heading).map(({ id, heading }) => html`<a href="#${id}">${heading}</a>`)}
  <a href="#log">Issuance log</a>
</nav>
<main id="main" tabindex="-1">
${sections.map(
  ({ id, heading, render }) => html`<section id="${id}" aria-label="${heading ?? "Overview"}">
  ${heading ? html`<h2>${heading}</h2>` : ""}
  <div data-live="${id}">${render(status)}</div>
</section>
`,
)}
<section id="log" aria-label="Issuance log">
  <h2>Issuance log</h2>
  ${log(status.log, query, logResults)}
</section>
</main>
<footer>
  <p>${status.program}. All times are UTC. This page changes nothing.</p>
  <p><a href="/bundle.pem">bundle.pem</a> <a href="/bundle.json">bundle.json</a> <a href="/readyz">readyz</a></p>
</footer>
</body>
</html>
`;
}

/** Whether the CA can sign, and of when that is. */
function state({ ready, needsAttention, now }: CaStatus): Markup {
  const verdict = ready ? badge("good", "ready") : badge("bad", "cannot sign");
  const attention = needsAttention.length;
  return html`${verdict} ${attention > 0 ? html`<a class="badge warn" href="#overview">${attention} to look at</a>` : ""}
    <span class="quiet">as of <time datetime="${now.toISOString()}">${instantText(now)}:${now.toISOString().slice(17, 19)}</time> UTC</span>`;
}

/** A part of the page that is a function of the status. The script replaces it when that changes. */
interface Section {
  readonly id: string;
  /** Absent for the part whose headings say enough. */
  readonly heading?: string;
  readonly render: (status: CaStatus) => Markup;
}

/** These parts in the order of the page. */
const sections: readonly Section[] = [
  { id: "overview", render: overview },
  { id: "authorities", heading: "Authorities", render: authorities },
  { id: "certificates", heading: "Certificates", render: issuance },
  { id: "trust", heading: "Trust bundle", render: trust },
  { id: "issuers", heading: "Issuers", render: issuers },
  { id: "checkup", heading: "Checkup", render: checkup },
];

/** A wall with battlements. */
export const mark =
  '<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><path fill="currentColor" d="M3 4h4v3h3V4h4v3h3V4h4v7l-1 1v8H4v-8l-1-1z"/></svg>';
