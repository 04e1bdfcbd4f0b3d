import { afterAll, expect, test } from "vitest";
import { LogEntry, type TokenEntry } from "../../../../src/ca/issuance/log-entry.ts";
import { loggedEntry, type SearchFields } from "../../../../src/cli/verbs/log/entry.ts";
import { FollowerIndex } from "../../../../src/cli/verbs/log/follower-index.ts";
import { addRequest, requestsSince } from "../../../../src/cli/verbs/log/logged-requests.ts";
import { tokenEntry } from "../../../testkit/log/token-entry.ts";

const index = new FollowerIndex();
afterAll(() => index[Symbol.dispose]());

const github = "https://token.actions.githubusercontent.com";
const workflow = (sub: string, repository_id: string): Partial<TokenEntry> => ({
  issuer: github,
  tokenSubject: { sub, entry: "deploy", claims: { repository_id, "a=b": "c=d" } },
});
const renewed = { proof: "certificate", provedAt: "2026-11-21T12:00:00.000Z" } as const;

const entries = [
  tokenEntry({ issuer: "https://a.test" }),
  tokenEntry(workflow("repo:o/r:environment:prod", "74")),
  tokenEntry(workflow("repo:o/s:environment:prod", "75")),
  tokenEntry({ issuer: github, ...renewed, tokenSubject: "unknown" }),
];
for (const [idx, entry] of entries.entries()) {
  const logged = loggedEntry(entry);
  index.addEntry(idx, LogEntry.format(entry), logged);
  addRequest(index, idx, entry, logged);
}

test.each<[SearchFields, readonly number[]]>([
  [{ issuer: github }, [3, 2, 1]],
  [{ issuer: "https://a.test" }, [0]],
  [{ issuer: "https://a" }, []],
  [{ subject: "repo:o/r:environment:prod" }, [1]],
  [{ subject: "repo:o/*" }, [2, 1]],
  [{ subject: "repo:o" }, []],
  [{ claim: "repository_id=74" }, [1]],
  [{ claim: "repository_id=7*" }, [2, 1]],
  [{ claim: "repository_id=7" }, []],
  [{ claim: "constructor=*" }, []],
  [{ claim: "ref=*" }, []],
  [{ claim: "repository_id=7*", subject: "*/s:*" }, [2]],
])("%j finds the entries %j", (fields, found) => {
  expect(index.search(fields, 20).map(({ idx }) => idx)).toEqual(found);
});

test("a policy is asked about the claims of a logged request, and told which are hidden", async () => {
  const requests = await Array.fromAsync(requestsSince(index, "", []));
  expect(requests.map(({ circumstances: { claims, hidden } }) => ({ claims, hidden }))).toEqual([
    {},
    { claims: { repository_id: "74", "a=b": "c=d" } },
    { claims: { repository_id: "75", "a=b": "c=d" } },
    { hidden: ["node", "claims"] },
  ]);
});
