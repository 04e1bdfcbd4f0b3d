import { html } from "hono/html";
import type { Decided, RuleStatus } from "../../status/issuance.ts";
import type { CaStatus } from "../../status/status.ts";
import { counted } from "./certificates.ts";
import { badge, count, foreign, type Markup, table } from "./format.ts";

/** The rules in their order, how often each decided, and what those in shadow would have done. */
export function policy({ rules, issuance, now }: CaStatus): Markup {
  if (rules.length === 0) {
    return html`<p class="quiet">There are no rules. <code>POLICY</code> says who may get what.</p>`;
  }
  const isCounted = rules.some(({ lastHour }) => lastHour);
  const head = html`<tr><th scope="col">Rule</th><th scope="col">When</th><th scope="col">Then</th>
    ${isCounted ? ["Last hour", "Last day"].map((each) => html`<th scope="col">${each}</th>`) : ""}</tr>`;
  const scope = isCounted
    ? counted(issuance, now)
    : html`<p class="quiet">Decisions are not counted here: the issuance log and the dataset CALL_COUNTS have them.</p>`;
  const unit = issuance.issuedOnly ? " issued" : "";
  return html`<p class="quiet">The first rule that fits a request decides. A rule in shadow changes nothing: its numbers are what it would have done.</p>
    ${table(
      "Rules",
      head,
      rules.map((each) => row(each, unit)),
    )}${scope}`;
}

/** @param unit Of the numbers, where they are not of all requests. */
function row({ name, shadow, when, then, ...counts }: RuleStatus, unit: string): Markup {
  const cells = [counts.lastHour, counts.lastDay].flatMap((each) => each ?? []);
  return html`<tr><th scope="row">${foreign(name)} ${shadow ? badge("plain", "shadow") : ""}</th>
    <td>${members(when, "any request")}</td><td>${members(then, "nothing changes")}</td>
    ${cells.map((each) => cell(each, shadow, unit))}</tr>`;
}

/** The members of a table, one a line, with the units that an operator writes. */
function members(values: object, otherwise: string): Markup {
  const lines = linesOf(values);
  if (lines.length === 0) return html`<span class="quiet">${otherwise}</span>`;
  return html`${lines.map((line) => html`<div>${foreign(line)}</div>`)}`;
}

const linesOf = (values: object, prefix = ""): readonly string[] =>
  Object.entries(values).flatMap(([key, value]) => {
    if (Array.isArray(value)) return [`${prefix}${key}: ${value.join(", ")}`];
    if (typeof value === "object" && value !== null) return linesOf(value, `${key}.`);
    return [`${prefix}${key}: ${typeof value === "number" ? `${value} s` : String(value)}`];
  });

function cell({ requests, denied, changed }: Decided, isShadow: boolean, unit: string): Markup {
  const would = isShadow ? "would be " : "";
  return html`<td>${requests === 0 ? html`<span class="quiet">0${unit}</span>` : `${count(requests)}${unit}`}
    ${denied > 0 ? html`<div>${badge(isShadow ? "warn" : "bad", `${count(denied)} ${would}denied`)}</div>` : ""}
    ${changed > 0 ? html`<div>${count(changed)} ${would}changed</div>` : ""}</td>`;
}
