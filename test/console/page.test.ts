import { describe, expect, test } from "vitest";
import { rangeOf, ticksOf } from "../../src/console/page/authorities.ts";
import { distance } from "../../src/console/page/format.ts";
import { logEntries } from "../../src/console/page/issuance.ts";
import { page } from "../../src/console/page/page.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import type { FoundEntries } from "../../src/status/log-search.ts";
import type { CaStatus } from "../../src/status/status.ts";
import {
  emptyStatus,
  sampleEntries,
  sampleNow,
  sampleStatus,
} from "../testkit/console/sample-status.ts";

const typed = (words: string): string => words;

const render = async (status: CaStatus, entries: FoundEntries, query = "") =>
  String(await page({ status, query, logResults: logEntries(entries, sampleNow), typed }));

const hostile = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&\u202e`;

/** The members that hold one of our own words, and never a text of somebody else. */
const words = ["kind", "phase", "delivery", "keys", "severity", "event", "log"];

/** The same value with every text of it replaced by hostile HTML. */
function poisoned<T>(value: T): T {
  const poison = (value: unknown): unknown => {
    if (typeof value === "string") return hostile;
    if (Array.isArray(value)) return value.map(poison);
    if (typeof value !== "object" || value === null || value instanceof Date) return value;
    const members = Object.entries(value).map(([name, member]) => {
      // A remedy that is a command is shown in an element of its own.
      if (name === "remedy") return [name, `\`rampart ${hostile}\``];
      return [name, words.includes(name) ? member : poison(member)];
    });
    return Object.fromEntries(members);
  };
  return poison(value) as T;
}

/** The elements and attributes of a document, by a reader of tags that knows no more than their syntax. */
const tagsOf = (html: string): string[] =>
  [...html.matchAll(/<([a-z][a-z0-9]*)((?:[^<>"]|"[^"]*")*)>/g)].map(([, name = ""]) => name);

describe("the page", () => {
  test("says what an operator looks for", async () => {
    const html = await render(sampleStatus, sampleEntries);
    for (const text of [
      "mesh.example.com",
      "Signing now",
      "prod-eu-1",
      "214 of 214",
      "older keys serve",
      "ns/shop/sa/checkout",
    ]) {
      expect(html).toContain(text);
    }
    for (const part of ["state", "overview", "authorities", "checkup", "log-entries"]) {
      expect(html).toContain(`data-live="${part}"`);
    }
  });

  test("shows no refused and no failed calls where only answers are counted", async () => {
    const { issuance } = sampleStatus;
    expect(await render(sampleStatus, sampleEntries)).toMatch(/>Refused</);
    const scope = "Nobody counts them here.";
    const counted = { ...sampleStatus, issuance: { ...issuance, issuedOnly: true, scope } };
    const html = await render(counted, sampleEntries);
    expect(html).not.toMatch(/>Refused<|>Failed<|0 refused/);
    expect(html).toContain("Refused and failed calls are not counted here.");
    expect(html).toContain(scope);
  });

  test("says of a rule that denies where its refusals are counted, instead of none", async () => {
    const denying = sampleStatus.rules.map((each) => ({ ...each, then: { deny: "closed" } }));
    const withRules = (shadow: boolean, issuedOnly: boolean) => {
      const rules = denying.map((each) => ({ ...each, shadow }));
      const issuance = { ...sampleStatus.issuance, issuedOnly };
      return render({ ...sampleStatus, rules, issuance }, sampleEntries);
    };
    const uncounted = "refusals are not counted here";
    expect((await withRules(false, true)).split(uncounted)).toHaveLength(2 * denying.length + 1);
    expect(await withRules(true, true)).not.toContain(uncounted);
    expect(await withRules(false, false)).not.toContain(uncounted);
  });

  test("has no script, no style and no address of elsewhere, unless it is told of its own script", async () => {
    const html = await render(sampleStatus, sampleEntries);
    expect(html).not.toMatch(/<script|style="|\son[a-z]+=|javascript:/i);
    const loaded = [...html.matchAll(/(?:src|href|action)="([^"]*)"/g)].map(([, to = ""]) => to);
    expect(loaded.filter((to) => !/^(?:\/(?!\/)|#)/.test(to))).toEqual([]);
    const script = { path: "/console/x.js", integrity: "sha256-x" };
    const withScript = String(
      await page({ status: sampleStatus, query: "", logResults: "", script, typed }),
    );
    expect(withScript.match(/<script/g)).toHaveLength(1);
  });

  test("escapes every text of a status and of a log", async () => {
    const plain = await render(sampleStatus, sampleEntries, "q");
    const html = await render(poisoned(sampleStatus), poisoned(sampleEntries), hostile);
    expect(html).not.toContain("<script");
    expect(html).not.toContain("<img");
    expect(html).toContain("&lt;script&gt;");
    expect(new Set(tagsOf(html))).toEqual(new Set(tagsOf(plain)));
    expect(html).not.toMatch(/<[a-z][^<>"]*(?:"[^"]*"[^<>"]*)*\sonerror/);
  });

  test("shows an empty CA, and one that has told nothing", async () => {
    const html = await render(emptyStatus, { entries: [], searched: 0, total: 0 });
    expect(html).toContain("nobody");
    expect(html).toContain("cannot sign");
    expect(html).toContain("The trust bundle is empty.");
  });

  test("does not call a store empty whose authorities do not open", async () => {
    const unopened = "The store holds 1 record of an authority, and none opens with this KEK.";
    const signer = { name: "", authorities: [], events: [], nextStep: undefined, unopened };
    const html = await render({ ...emptyStatus, signers: [signer] }, sampleEntries);
    expect(html).toContain(unopened);
    expect(html).not.toContain("holds no authority");
  });

  test.each([
    [
      "`rampart authority export -o a.age`",
      "<pre><code>rampart authority export -o a.age</code></pre>",
    ],
    ["Make room: `df -h /var/lib`", "<p>→ <bdi>Make room: </bdi><code>df -h /var/lib</code>"],
    ["Look at what renews it", "<p>→ <bdi>Look at what renews it</bdi></p>"],
  ])(
    "shows the commands of the remedy %s, and nothing else, as commands",
    async (remedy, shown) => {
      const finding = {
        name: "backup-old",
        severity: "warning",
        what: "",
        why: "",
        remedy,
      } as const;
      expect(await render({ ...emptyStatus, findings: [finding] }, sampleEntries)).toContain(shown);
    },
  );

  test("cuts what is very long", async () => {
    const status = { ...emptyStatus, needsAttention: ["x".repeat(100_000)] };
    expect((await render(status, sampleEntries)).length).toBeLessThan(40_000);
  });

  test.each<[CaStatus["log"], string]>([
    ["off", "not logged"],
    ["closed", "CONSOLE_TOKENS"],
    ["readable", 'type="search"'],
  ])("says whether the log can be searched: %s", async (log, text) => {
    const html = await render({ ...emptyStatus, log }, sampleEntries);
    expect(html).toContain(text);
    expect(html.includes("<form")).toBe(log === "readable");
  });

  test("gives every table headings, every picture a name and every field a label", async () => {
    const html = await render(sampleStatus, sampleEntries);
    expect(html.match(/<table>/g)?.length).toBe(html.match(/<thead>/g)?.length);
    expect(html).not.toMatch(/<th(?![^>]*scope=)(?:\s[^>]*)?>/);
    expect(html).not.toMatch(/<svg(?![^>]*(?:aria-label|aria-hidden))/);
    expect(html).toContain('<label for="q">');
  });
});

describe("the axis of time", () => {
  const hour = 3600;
  test.each([
    ["an hour", hour],
    ["a day", 24 * hour],
    ["a month", 30 * 24 * hour],
    ["three years", 3 * 365 * 24 * hour],
    ["two centuries", 200 * 365 * 24 * hour],
  ])("has two to seven marks within %s, in order", (_, seconds) => {
    const range = rangeOf([{ from: sampleNow, until: addSeconds(sampleNow, seconds) }], sampleNow);
    const percents = ticksOf(range).map(({ percent }) => percent);
    expect(percents.length).toBeGreaterThanOrEqual(seconds === hour ? 1 : 2);
    expect(percents.length).toBeLessThanOrEqual(7);
    expect(percents).toEqual(percents.toSorted((a, b) => a - b));
  });

  test("holds now even where nothing else is", () => {
    expect(rangeOf([], sampleNow).percent(sampleNow)).toBe(50);
  });
});

test.each([
  [30, "in a moment"],
  [-30, "just now"],
  [90, "in 1 minute"],
  [-7200, "2 hours ago"],
  [5 * 86_400, "in 5 days"],
  [-800 * 86_400, "2 years ago"],
])("says how far %i seconds are", (seconds, text) => {
  expect(distance(addSeconds(sampleNow, seconds), sampleNow)).toBe(text);
});
