import { html, raw } from "hono/html";
import { quantile, type Report, summaryOf } from "./report.ts";
import { type PlayedRow, worstFirst } from "./row.ts";

/** Formats a report as one file of HTML, which needs nothing else and prints well. Every text in it is escaped. */
export async function reportPage(report: Report): Promise<string> {
  const { url, platform, identity, at, program, rows, worst } = report;
  return `${await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Acceptance of ${url}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>${raw(style)}</style>
</head>
<body>
<header>
  <p class="quiet">Rampart: acceptance of a deployed CA</p>
  <h1>${url}</h1>
  <p><span class="badge ${worst}">${worst}</span> ${summaryOf(rows)}</p>
  <dl>
    <dt>Played</dt><dd>${at.toISOString().slice(0, 16).replace("T", " ")} UTC, for ${platform}, by ${program}</dd>
    <dt>Identity</dt><dd>${identity ?? "no certificate was issued"}</dd>
  </dl>
</header>
<main>
${latencies(report)}
<h2>Rows</h2>
<table>
<thead><tr><th>Row</th><th>Verdict</th><th>Measured</th><th>Expected, and why</th></tr></thead>
<tbody>${worstFirst(rows).map(tableRow)}</tbody>
</table>
</main>
</body>
</html>
`}`;
}

const tableRow = ({ name, verdict, measured, expect, why, page }: PlayedRow) => html`
<tr><th scope="row">${name}</th><td><span class="badge ${verdict}">${verdict}</span></td><td>${measured}</td>
<td>${expect}. <span class="quiet">${why} ${page}</span></td></tr>`;

const lane = { width: 720, height: 34, left: 8 };

/** The latencies of each protocol: one dot for each call, and a line at the median. */
function latencies({ latencies: byProtocol }: Report) {
  const lanes = Object.entries(byProtocol).filter(([, values]) => values.length > 0);
  if (lanes.length === 0) return "";
  const most = Math.max(1, ...lanes.flatMap(([, values]) => values)) * 1.05;
  const x = (value: number): string =>
    (lane.left + (value / most) * (lane.width - 2 * lane.left)).toFixed(1);
  return html`<h2>Latencies of certificates</h2>
${lanes.map(([protocol, values]) => {
  const sorted = values.toSorted((a, b) => a - b);
  const [median, ninetieth] = [quantile(sorted, 0.5), quantile(sorted, 0.9)].map(Math.round);
  const label = `${protocol}, calls: ${sorted.length}, median ${median} ms, 9 of 10 within ${ninetieth} ms`;
  return html`<figure><figcaption>${label}</figcaption>
<svg viewBox="0 0 ${lane.width} ${lane.height}" role="img" aria-label="${label}">
<line class="axis" x1="${lane.left}" x2="${lane.width - lane.left}" y1="26" y2="26"/>
${sorted.map((value) => html`<circle cx="${x(value)}" cy="14" r="4"/>`)}
<line class="median" x1="${x(median ?? 0)}" x2="${x(median ?? 0)}" y1="2" y2="30"/>
</svg></figure>`;
})}
<p class="quiet">All lanes run from 0 to ${Math.round(most)} ms, as measured from this machine.</p>`;
}

const style = `
:root{color-scheme:light dark;--page:#fff;--ink:#1a2024;--quiet:#56616a;--line:#dfe3e5;--accent:#0b6472;
--good:#17633a;--good-page:#e2f3e8;--attention:#7a4b00;--attention-page:#fdf1d7;--broken:#a1242b;--broken-page:#fbe6e6;--skipped:#56616a;--skipped-page:#eceff0}
@media(prefers-color-scheme:dark) and (not print){:root{--page:#0f1315;--ink:#e4e9eb;--quiet:#9aa7af;--line:#2b3439;--accent:#4fb3c1;
--good:#7fd6a2;--good-page:#143222;--attention:#f2c46d;--attention-page:#3a2c0d;--broken:#ff9c9c;--broken-page:#42191b;--skipped:#9aa7af;--skipped-page:#262e32}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:72rem;background:var(--page);color:var(--ink);font:400 .9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.5rem;line-height:1.2;margin:.2rem 0 .6rem;overflow-wrap:anywhere}
h2{font-size:1.0625rem;margin:1.8rem 0 .6rem}
p{margin:.4rem 0}
.quiet,dt,figcaption{color:var(--quiet)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.6rem 0}
dd{margin:0;overflow-wrap:anywhere}
.badge{display:inline-block;padding:.05rem .55rem;border-radius:99px;font-size:.8125rem;font-weight:600;white-space:nowrap}
${["good", "attention", "broken", "skipped"].map((each) => `.${each}{color:var(--${each});background:var(--${each}-page)}`).join("\n")}
figure{margin:.4rem 0}
figcaption{font-size:.8125rem}
svg{display:block;width:100%;max-width:45rem}
circle{fill:var(--accent);fill-opacity:.45}
line.axis{stroke:var(--line)}
line.median{stroke:var(--broken);stroke-width:2}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th,td{text-align:left;vertical-align:top;padding:.5rem 1rem .5rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
tbody th{font-weight:600;white-space:nowrap}
thead th{color:var(--quiet);font-size:.8125rem;white-space:nowrap}
td:nth-child(3){min-width:13rem}
tr{break-inside:avoid}
@media(max-width:48rem){body{padding:1rem}thead{display:none}tr{display:block;padding:.6rem 0;border-bottom:1px solid var(--line)}
th,td{display:block;border:0;padding:.1rem 0;min-width:0}tbody th,tbody th+td{display:inline-block;padding-right:.6rem}}
@media print{body{padding:0;font-size:10pt}.badge{border:1px solid}}
`;
