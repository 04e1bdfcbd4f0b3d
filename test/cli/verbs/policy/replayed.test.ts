import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { TokenEntry } from "../../../../src/ca/issuance/log-entry.ts";
import { Policy } from "../../../../src/ca/policy/policy.ts";
import { PolicyTable } from "../../../../src/ca/policy/rule.ts";
import { loggedEntry } from "../../../../src/cli/verbs/log/entry.ts";
import { FollowerIndex } from "../../../../src/cli/verbs/log/follower-index.ts";
import { addRequest, requestsSince } from "../../../../src/cli/verbs/log/logged-requests.ts";
import { refusalsIn } from "../../../../src/cli/verbs/policy/policy.ts";
import { replay } from "../../../../src/cli/verbs/policy/replayed.ts";
import { generatedRules } from "../../../testkit/ca/generated-rules.ts";
import { historyOf, livedThrough } from "../../../testkit/ca/past-mesh.ts";
import { tokenEntry } from "../../../testkit/log/token-entry.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const certificates = { defaultSeconds: 12 * 3600, maximumSeconds: 24 * 3600 };
const tokens = { defaultSeconds: 300, maximumSeconds: 3600 };
const lifetimesOf = (product: string) => (product === "token" ? tokens : certificates);

type Past = Awaited<ReturnType<typeof livedThrough>>;

async function replayed({ index, audits }: Past, rules: readonly object[]) {
  const policy = Policy.create(PolicyTable.schema.parse({ rules }));
  const file = join(await temporaryFolder(), "audit.jsonl");
  const time = new Date().toISOString();
  await writeFile(file, audits.map((audit) => JSON.stringify({ time, ...audit })).join("\n"));
  const instants = policy.rules.flatMap(({ since }) => since ?? []);
  const logged = requestsSince(index, "", instants);
  return replay({ policy, lifetimesOf }, logged, await refusalsIn(file, ""));
}

/** By a rule: an audience may be denied by its issuer's table as well. */
const isDenied = ({ reason, rule }: Past["audits"][number]): boolean =>
  rule !== undefined && (reason === "policy-denied" || reason === "audience-denied");

const isAnswered = (audit: Past["audits"][number]): boolean =>
  audit.outcome === "issued" || isDenied(audit);

const countOf = (values: readonly unknown[]): Record<string, number> =>
  Object.fromEntries([...Map.groupBy(values, String)].map(([name, group]) => [name, group.length]));

test("a replay lets a terminal say meanwhile that it works", async () => {
  const turn = new Promise((resolve) => setImmediate(resolve, "turn"));
  const rules = { policy: Policy.create(PolicyTable.schema.parse({ rules: [] })), lifetimesOf };
  expect(await Promise.race([replay(rules, []), turn])).toMatchObject({ requests: 0 });
  const circumstances = { proof: "token", product: "workload", requested: 0, caller: {} } as const;
  const made = { lifeSeconds: 0, signer: undefined };
  const request = { circumstances: { ...circumstances, key_type: "RSA" }, made } as const;
  const many = Array.from({ length: 2000 }, () => ({ ...request, count: 1, place: "entry 0" }));
  expect(await Promise.race([replay(rules, many), turn])).toBe("turn");
});

async function requestsIn(...entries: readonly TokenEntry[]) {
  using index = new FollowerIndex();
  for (const [i, entry] of entries.entries()) addRequest(index, i, entry, loggedEntry(entry));
  return await Array.fromAsync(requestsSince(index, "", []));
}

const rulesOf = (...rules: readonly object[]) => ({
  policy: Policy.create(PolicyTable.schema.parse({ rules })),
  lifetimesOf,
});

test("a rule over the node denies whom a gateway forwards by a name alone, as the CA does", async () => {
  const gateway = "spiffe://cluster.local/ns/edge/sa/envoy";
  const forwarded = tokenEntry({ proof: "forwarded", gateway, grantedSeconds: 300 });
  const [request] = await requestsIn(forwarded);
  expect(request?.circumstances.hidden).toContain("node");
  const rule = { name: "no", when: { node: "node-7" }, then: { deny: "stolen" } };
  const { rules } = await replay(rulesOf(rule), await requestsIn(forwarded));
  expect(rules).toMatchObject([{ rule: "no", effects: { denied: 1 } }]);
});

test("what a rule does to an entry that does not say for whom it was is unknown", async () => {
  const vague = tokenEntry({ grantedSeconds: 300 }, { spiffeId: "spiffe://cluster.local/other" });
  const [old] = await requestsIn(vague);
  const [unnamed] = await requestsIn({ ...vague, holder: "unnamed" });
  expect([old?.isVague, unnamed?.isVague]).toEqual([true, undefined]);
  const rule = { name: "no", then: { deny: "no" } };
  const { rules } = await replay(rulesOf(rule), await requestsIn(vague));
  expect(rules).toMatchObject([{ rule: "no", effects: { denied: 0, unknown: 1 } }]);
});

test("a rule in shadow has the effects that it adds to those of the live rules", async () => {
  const deny = (name: string, when: object, shadow = false) => ({
    ...{ name, when, then: { deny: name }, shadow },
  });
  const rules = rulesOf(deny("would", {}, true), deny("does", { namespace: "shop" }));
  const bank = { spiffeId: "spiffe://cluster.local/ns/bank/sa/ledger" };
  const [shop, other] = [tokenEntry({ grantedSeconds: 300 }), { grantedSeconds: 300 }];
  const past = await requestsIn(shop, tokenEntry(other, bank));
  const { rules: found } = await replay(rules, past);
  expect(found).toMatchObject([
    { rule: "would", isShadow: true, requests: 2, effects: { denied: 1, same: 1 } },
    { rule: "does", requests: 1, effects: { denied: 1 } },
    { rule: "", requests: 1, effects: { denied: 0 } },
  ]);
});

test("requests that are alike count together over the whole log, apart from those with a younger token", async () => {
  using index = new FollowerIndex();
  const circumstances = { proof: "certificate", product: "workload", requested: 0, caller: {} };
  const json = JSON.stringify({ circumstances, made: { lifeSeconds: 60 } });
  index.run("INSERT INTO question VALUES (1, ?)", json);
  const days = ["2026-11-01", "2026-11-03", "2026-11-05"].map((day) => `${day}T00:00:00.000Z`);
  for (const [i, provedAt] of days.entries()) {
    index.run("INSERT INTO request VALUES (?, ?, 1, ?)", 60_000 * i + 7, "2026-11-06", provedAt);
  }
  const found = async (...instants: readonly string[]) => {
    const requests = requestsSince(
      index,
      "",
      instants.map((each) => new Date(each)),
    );
    return (await Array.fromAsync(requests)).map(
      ({ place, count, circumstances: { provedAt } }) => [
        ...[place, count, provedAt?.toISOString()],
      ],
    );
  };
  expect(await found()).toEqual([["entry 7", 3, days[2]]]);
  expect(await found("2026-11-02", "2026-11-09")).toEqual([
    ["entry 7", 1, days[0]],
    ["entry 60007", 2, days[2]],
  ]);
});

const samples = fc.sample(fc.tuple(generatedRules, generatedRules, historyOf(60)), {
  numRuns: 6,
  seed: 2611,
});

const lives = await Promise.all(
  samples.map(async ([rules, others, requests]) => ({
    rules,
    others,
    past: await livedThrough(requests, rules),
    next: await livedThrough(requests, others),
  })),
);

test("the histories have every product, and the certificates of a named signer", () => {
  const audits = lives.flatMap(({ past, next }) => [...past.audits, ...next.audits]);
  const issued = audits.filter(({ outcome }) => outcome === "issued");
  expect(countOf(issued.map(({ asked, signer = "" }) => `${asked?.product} ${signer}`))).toEqual(
    Object.fromEntries(
      ["workload ", "workload team-a", "serving ", "intermediate intermediate", "token "].map(
        (product) => [product, expect.any(Number)],
      ),
    ),
  );
});

test.each(lives)(
  "replaying the rules that were live gives the decisions that were made (history %$)",
  async ({ past, rules }) => {
    const answered = past.audits.filter(isAnswered);
    const report = await replayed(past, rules);
    expect(report).toMatchObject({ requests: answered.length, changes: 0 });
    const live = report.rules.filter(({ isShadow }) => !isShadow);
    expect(Object.fromEntries(live.map(({ rule, requests: n }) => [rule, n]))).toEqual(
      countOf(answered.map(({ rule }) => rule ?? "")),
    );
    const shadow = report.rules.flatMap(({ rule, isShadow, effects }) =>
      isShadow ? Object.entries(effects).map(([effect, n]) => [`${rule} ${effect}`, n]) : [],
    );
    const audited = answered.flatMap(({ shadowRule, shadowEffect }) =>
      shadowRule === undefined ? [] : [`${shadowRule} ${shadowEffect}`],
    );
    expect(Object.fromEntries(shadow.filter(([, n]) => n !== 0))).toEqual(countOf(audited));
  },
);

test.each(lives)(
  "replaying other rules finds each change that they make (history %$)",
  async ({ past, next, others }) => {
    const report = await replayed(past, others);
    const effects = past.audits.flatMap((before, i) => {
      const after = next.audits[i];
      if (!after || !isAnswered(before)) return [];
      const wasDenied = isDenied(before);
      if (isDenied(after)) return [wasDenied ? "same" : "denied"];
      if (wasDenied) return ["allowed"];
      const [named, names] = [before, after].map((each) => String([each.signer, each.dnsNames]));
      if (named !== names) return ["changed"];
      const ends = [before, after].map(({ notAfter }) => new Date(String(notAfter)).getTime());
      const [was = 0, is = 0] = ends;
      return [is < was ? "shortened" : is > was ? "changed" : "same"];
    });
    const found: Record<string, number> = {};
    for (const { isShadow, effects: some } of report.rules) {
      if (isShadow) continue;
      for (const [effect, n] of Object.entries(some)) found[effect] = (found[effect] ?? 0) + n;
    }
    expect(Object.fromEntries(Object.entries(found).filter(([, n]) => n > 0))).toEqual(
      countOf(effects),
    );
    expect(report.changes).toBe(effects.filter((effect) => effect !== "same").length);
  },
);
