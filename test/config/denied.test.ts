import { expect, test } from "vitest";
import { deniedTable, formatDenied } from "../../src/config/denied.ts";

const since = "2026-11-21T12:00:00Z";

test.each([
  ["a subject alone", ["ns/shop/sa/*"]],
  ["a list as JSON in a text", '["cluster/a"]'],
  ["a table with an end", [{ subject: "cluster/a", until: since, why: "it was taken" }]],
  ["an instant of TOML", [{ subject: "node/n", since: new Date(since) }]],
  ["nobody", []],
])("accepts %s", (_, value) => {
  expect(deniedTable.safeParse(value).success).toBe(true);
});

test.each([
  ["an unknown form", ["ns/shop"], "subject must be spiffe:"],
  ["a regular expression", ["ns/shop/sa/(a|b)"], "subject must be"],
  ["an account with a space", ["ns/shop/sa/a b"], "subject must be"],
  ["a node without a beginning", ["node/n"], "since is required"],
  ["a pod without a beginning", [{ subject: "pod/1" }], "since is required"],
  ["a token without a beginning", [{ subject: "token/1" }], "since is required"],
  [
    "an end that is no instant",
    [{ subject: "cluster/a", until: "tomorrow" }],
    "must be an instant",
  ],
  ["an unknown member", [{ subject: "cluster/a", for: "1h" }], "unrecognized_keys"],
  ["a number", [7], "invalid_type"],
  ["a subject that is none", [{ subject: 7 }], "invalid_type"],
  ["no list", "cluster/a", "must be JSON"],
])("refuses %s", (_, value, message) => {
  const { error } = deniedTable.safeParse(value);
  // The words of zod's own messages depend on what else a process has loaded; its codes do not.
  const said = error?.issues.map((issue) => `${issue.code} ${issue.message}`).join();
  expect(said).toContain(message);
});

test("a denial survives being written and read", () => {
  const subject = 'node/worker-3.example"';
  expect(formatDenied({ subject: "cluster/a", knownFrom: new Date(since), why: 'a "why"' })).toBe(
    '{ subject = "cluster/a", why = "a \\"why\\"" }',
  );
  expect(formatDenied({ subject, knownFrom: new Date(since) })).not.toContain("since");
});
