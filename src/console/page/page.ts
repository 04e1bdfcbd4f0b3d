import { html, raw } from "hono/html";
import type { CaStatus } from "../../status/status.ts";
import { authorities } from "./authorities.ts";
import { badge, foreign, instantText, type Markup } from "./format.ts";
import { issuance, log, policy } from "./issuance.ts";
import { checkup, overview } from "./overview.ts";
import { issuers, trust } from "./trust.ts";

/** What a page shows. */
interface PageContent {
  readonly status: CaStatus;
  readonly query: string;
  /** The entries of the log, rendered, or a sentence. */
  readonly logResults: Markup | string;
  /** Changes the words of a command so that it acts on this CA. */
  readonly typed: (words: string) => string;
  /** The script that updates the page; absent if there is none. */
  readonly script?: { readonly path: string; readonly integrity: string } | undefined;
}

/** Renders the complete page. Without its script, the page works but does not update itself. */
export function page({ status, query, logResults, script, typed }: PageContent): Markup {
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
  <div data-live="${id}">${render(status, typed)}</div>
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

/** Renders whether the CA can sign, and since when the page is current. */
function state({ ready, needsAttention, now }: CaStatus): Markup {
  const verdict = ready ? badge("good", "ready") : badge("bad", "cannot sign");
  const attention = needsAttention.length;
  return html`${verdict} ${attention > 0 ? html`<a class="badge warn" href="#overview">${attention} to look at</a>` : ""}
    <span class="quiet">as of <time datetime="${now.toISOString()}">${instantText(now)}:${now.toISOString().slice(17, 19)}</time> UTC</span>`;
}

/** A part of the page that depends only on the status. The script replaces it when it changes. */
interface Section {
  readonly id: string;
  /** Absent for a part with headings of its own. */
  readonly heading?: string;
  readonly render: (status: CaStatus, typed: (words: string) => string) => Markup;
}

/** The parts in the order of the page. */
const sections: readonly Section[] = [
  { id: "overview", render: overview },
  { id: "checkup", heading: "Checkup", render: checkup },
  { id: "authorities", heading: "Authorities", render: authorities },
  { id: "certificates", heading: "Certificates", render: issuance },
  { id: "policy", heading: "Policy", render: policy },
  { id: "trust", heading: "Trust bundle", render: trust },
  { id: "issuers", heading: "Issuers", render: issuers },
];

/** The logo, as SVG: a wall with battlements. */
export const mark =
  '<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><path fill="currentColor" d="M3 4h4v3h3V4h4v3h3V4h4v7l-1 1v8H4v-8l-1-1z"/></svg>';

/** The style of the page. No meaning depends on colour alone, and every text has a contrast of at least 4.5. */
export const style = `
:root{color-scheme:light dark;
--page:#f6f7f7;--card:#fff;--ink:#1a2024;--quiet:#56616a;--line:#dfe3e5;--accent:#0b6472;--soft:#cfe5e8;--later:#8fb3b8;
--good:#17633a;--good-page:#e2f3e8;--warn:#7a4b00;--warn-page:#fdf1d7;--bad:#a1242b;--bad-page:#fbe6e6;--plain-page:#eceff0;--today:#c2410c;--shade:#00000038}
@media(prefers-color-scheme:dark){:root{
--page:#0f1315;--card:#171d20;--ink:#e4e9eb;--quiet:#9aa7af;--line:#2b3439;--accent:#4fb3c1;--soft:#1d4a52;--later:#2f6b74;
--good:#7fd6a2;--good-page:#143222;--warn:#f2c46d;--warn-page:#3a2c0d;--bad:#ff9c9c;--bad-page:#42191b;--plain-page:#262e32;--today:#fb923c;--shade:#ffffff38}}
*{box-sizing:border-box}
body{margin:0 auto;padding:0 1.5rem 3rem;max-width:76rem;background:var(--page);color:var(--ink);
font:400 .9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;-webkit-text-size-adjust:100%}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
a{color:var(--accent);text-underline-offset:.15em}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-999rem}
.skip:focus{left:1.5rem;top:.5rem;background:var(--card);padding:.4rem .8rem;z-index:1}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem 1rem;padding:1.75rem 0 .75rem}
.brand{display:flex;align-items:center;gap:.5rem;color:var(--accent);font-weight:600;flex-basis:100%}
h1{font-size:1.75rem;line-height:1.2;letter-spacing:-.01em;font-weight:650;margin:0;overflow-wrap:anywhere}
.state{display:flex;flex-wrap:wrap;align-items:center;gap:.35rem .6rem}
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:.5rem 0;border-bottom:1px solid var(--line);font-size:.875rem}
nav a{text-decoration:none;padding:.2rem 0}
nav a:hover{text-decoration:underline}
main:focus{outline:0}
.old main{filter:grayscale(1)}
.old .state{flex-basis:100%;padding:1rem;background:var(--bad);color:var(--page);font-size:1.25rem}
section{margin:1.25rem 0 0;padding:1.25rem 1.5rem 1.5rem;background:var(--card);border:1px solid var(--line);border-radius:10px}
#overview{padding:0;border:0;background:none}
h2{font-size:1.0625rem;font-weight:650;margin:0 0 .9rem}
h3{font-size:.9375rem;font-weight:650;margin:1.6rem 0 .6rem}
p{margin:.6rem 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:1rem}
.card,.attention,.note{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:1.1rem 1.25rem}
.card h2{font-size:.8125rem;font-weight:600;color:var(--quiet);margin:0}
.big{font-size:1.25rem;font-weight:600;letter-spacing:-.01em;margin:.2rem 0 .6rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:0}
dt{color:var(--quiet)}dd{margin:0}
.attention,.note{margin-top:1rem}
.attention{background:var(--warn-page);border-color:transparent;border-left:4px solid var(--warn)}
.attention h2{margin:0 0 .3rem}
.attention ul{margin:0;padding-left:1.1rem;overflow-wrap:anywhere}
.attention .quiet{color:inherit}
.quiet{color:var(--quiet)}
time{font-variant-numeric:tabular-nums;white-space:nowrap}
.badge{display:inline-block;padding:.05rem .55rem;border-radius:99px;font-size:.8125rem;font-weight:600;white-space:nowrap;text-decoration:none;background:var(--plain-page);color:var(--ink)}
.badge.good{background:var(--good-page);color:var(--good)}
.badge.warn{background:var(--warn-page);color:var(--warn)}
.badge.bad{background:var(--bad-page);color:var(--bad)}
.scroll{overflow-x:auto;margin:0 -.25rem;padding:0 .25rem;background:
linear-gradient(to right,var(--card) 50%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(to left,var(--card) 50%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(to right,var(--shade),transparent) 0 0/.9rem 100% no-repeat,
linear-gradient(to left,var(--shade),transparent) 100% 0/.9rem 100% no-repeat}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.45rem 1rem .45rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
th:last-child,td:last-child{padding-right:0}
tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--quiet);font-weight:600;font-size:.8125rem;vertical-align:bottom}
tbody th{font-weight:500}
th.number,td.number{text-align:right}
th.group{text-align:center}
td.wrap,th.wrap{white-space:normal;overflow-wrap:anywhere;min-width:18rem}
.state-of{white-space:normal;min-width:9rem;max-width:16rem}
figure{margin:0 0 1.25rem}
figcaption{color:var(--quiet);font-size:.8125rem;display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin-top:.5rem}
svg{display:block;width:100%;overflow:visible}
.brand svg{width:1.4rem;height:1.4rem}
.lane{display:grid;grid-template-columns:15rem 1fr;align-items:center;gap:0 1rem}
.lane .who{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
rect.published{fill:var(--soft)}rect.signing{fill:var(--accent)}rect.verifying{fill:var(--later)}
rect.root{fill:none;stroke:var(--later);stroke-width:1.5}
rect.planned{fill:none;stroke:var(--accent);stroke-width:1.5;stroke-dasharray:4 3}
line.grid{stroke:var(--line)}
line.today{stroke:var(--today);stroke-width:2}
text.tick{fill:var(--quiet);font-size:.75rem}
text.now{fill:var(--today);font-weight:600}
.key::before{content:"";display:inline-block;width:.9em;height:.7em;border-radius:2px;margin-right:.4em;background:var(--soft)}
.key.signing::before,.key.issued::before{background:var(--accent)}
.key.verifying::before{background:var(--later)}
.key.root::before{background:none;border:1.5px solid var(--later)}
.key.planned::before{background:none;border:1.5px dashed var(--accent)}
.key.today::before{background:var(--today);width:2px;height:1em;vertical-align:-.15em}
.key.refused::before{background:var(--today)}
.chart figcaption{justify-content:space-between}
.chart .key+.key{margin-left:.9rem}
rect.issued{fill:var(--accent)}rect.refused{fill:var(--today)}
line.base{stroke:var(--line)}
.events{list-style:none;margin:0;padding:0}
.events li{display:grid;grid-template-columns:max-content 8rem 1fr;gap:0 1rem;padding:.3rem 0;border-bottom:1px solid var(--line);font-size:.875rem}
.events li:last-child{border-bottom:0}
.findings{list-style:none;margin:0;padding:0}
.findings li{padding:.7rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.findings li:last-child{border-bottom:0}
pre{margin:.5rem 0;padding:.6rem .8rem;background:var(--plain-page);border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere}
label{display:block;font-size:.8125rem;color:var(--quiet);margin-bottom:.25rem}
.field{display:flex;gap:.5rem;max-width:40rem;margin-bottom:1rem}
input,button{font:inherit;color:inherit;padding:.4rem .7rem;border:1px solid var(--quiet);border-radius:6px;background:var(--card)}
input{flex:1;min-width:0}
button{background:var(--accent);border-color:var(--accent);color:var(--card);font-weight:600;cursor:pointer}
footer{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 2rem;color:var(--quiet);font-size:.8125rem;padding:1.25rem 0}
footer a+a{margin-left:.9rem}
@media(max-width:44rem){body{padding:0 .9rem 2rem}section{padding:1rem}header{padding-top:1.1rem}
text.spare{display:none}.lane{grid-template-columns:1fr;margin-bottom:.3rem}.lane.axis .who{display:none}
.chart figcaption>:nth-child(2){order:1;flex-basis:100%}
.events li{grid-template-columns:max-content 1fr}.events li>:last-child{grid-column:1/-1}
footer{display:block}}
@media print{nav,.skip,#log-search{display:none}section,.card{break-inside:avoid}}
`;
