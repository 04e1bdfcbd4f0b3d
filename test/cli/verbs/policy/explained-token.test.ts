import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { expect, test } from "vitest";
import { claimsOf } from "../../../testkit/callers/foreign-tokens.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintAccountToken,
  mintToken,
  type TokenKey,
} from "../../../testkit/callers/tokens.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const now = new Date("2026-11-22T12:00:00Z");
const github = claimsOf("github", now);

const key = await createTokenKey("ES256", "k1");
const other = await createTokenKey("ES256", "k1");

const table: Claims = {
  issuer: github["iss"],
  audiences: ["https://ca.test"],
  cluster: "github",
  namespaces: ["ci"],
  recorded_claims: ["repository_id", "run_id"],
  jwks: jwksOf(key),
  subjects: [
    {
      name: "staging",
      claims: { repository_id: "74", environment: "staging", event_name: "push" },
      namespace: "ci",
      account: "staging",
    },
    {
      name: "production",
      claims: { repository_id: "74", environment: "prod" },
      namespace: "ci",
      account: "deploy",
    },
  ],
};

interface Asked {
  readonly claims?: Claims;
  readonly changes?: Claims;
  readonly signer?: TokenKey;
  readonly token?: string;
  readonly words?: readonly string[];
  readonly denied?: readonly object[];
}

/** What `policy explain` prints of a token. @throws Error if the token, or a claim that nobody records, is in it. */
async function explain({ claims = {}, changes = {}, denied = [], ...asked }: Asked) {
  const { signer = key, words = [], token } = asked;
  const rules = [
    { name: "job", when: { claims: { repository_id: "74" } }, then: { maximum_life: "10m" } },
    { name: "closed", when: { claims: { repository_id: "75" } }, then: { deny: "closed" } },
  ];
  const configuration = {
    ISSUERS: [{ ...table, ...changes }],
    POLICY: { rules },
    DENIED: denied,
  };
  const folder = await temporaryFolder();
  const [config, file] = [join(folder, "rampart.toml"), join(folder, "token")];
  const text = token ?? (await mintToken(signer, { ...github, secret: "xyzzy", ...claims }));
  await writeFile(config, stringify(JSON.parse(JSON.stringify(configuration))));
  await writeFile(file, `${text}\n`);
  const typed = ["policy", "explain", "-c", config, "--token", file, ...words];
  const terminal = await MemoryTerminal.ran(typed, { clock: () => now });
  expect(terminal.exitCode).toBe(words.length > 0 ? 2 : undefined);
  const shown = (terminal.printed + terminal.said).replaceAll(` --config ${config}`, " --config …");
  for (const hidden of ["xyzzy", "octo-org", ...text.split(".").filter((part) => part.length > 9)])
    if (shown.includes(hidden)) throw new Error(`the answer has ${hidden}`);
  return shown;
}

const head = "Issuer: https://token.actions.githubusercontent.com, of the cluster github.\n";
const checked = "Signature: checked by the issuer's keys in the configuration.\n";

test("says which entry fits, by which claims, and what the bearer gets", async () => {
  expect(await explain({})).toBe(
    `${head}${checked}Entry: production is the first that fits, by repository_id, environment.\n` +
      "  repository_id = 74\n  run_id = 577902066\n" +
      "Identity: spiffe://cluster.local/ns/ci/sa/deploy\n" +
      "Denials: DENIED has none; `rampart deny list --config …` shows those of the store.\n" +
      'The rule job decides, because it is for {"claims":{"repository_id":["74"]}}.\n  life: 600 s\n',
  );
});

test.each(["claim/repository_id=74", "token/example-id", `issuer/${github["iss"]}`, "ns/ci/sa/*"])(
  "says that DENIED has %s",
  async (subject) => {
    const since = "2026-11-21T00:00:00Z";
    const shown = await explain({ denied: [{ subject, since }] });
    expect(shown).toContain(`Refused: DENIED has ${subject}.`);
    expect(shown).not.toMatch(/The rule|No rule/);
    const until = "2026-11-22T11:00:00Z";
    expect(await explain({ denied: [{ subject, since, until }] })).toContain("DENIED has none");
  },
);

test("says what the nearest entry misses", async () => {
  expect(await explain({ claims: { environment: "test" } })).toBe(
    `${head}${checked}Refused: no entry of subjects fits: the nearest, staging, misses environment.\n`,
  );
});

const claims = { ref_type: "branch" };
const ofEnvironment = { name: "x", claims, namespace: "{environment}", account: "a" };

test.each<[string, Asked, string]>([
  ["a token for others as well", { claims: { aud: ["https://ca.test", "b"] } }, "this CA alone"],
  ["a token from the future", { claims: { iat: 2e9, exp: 2e9 + 9 } }, "from the future"],
  ["another issuer's", { claims: { iss: "https://octo-org.test" } }, "no table of ISSUERS"],
  ["no token", { token: "octo-org" }, "Refused: not a compact JWS"],
  [
    "one of a namespace that is none of its issuer",
    { changes: { namespaces: ["c*"], subjects: [ofEnvironment] } },
    "may not vouch",
  ],
])("refuses %s", async (_, asked, sentence) => {
  const shown = await explain(asked);
  expect(shown).toContain(sentence);
  expect(shown).not.toMatch(/The rule|No rule/);
});

test("refuses a token that another key has signed, and judges none of its claims", async () => {
  expect(await explain({ signer: other })).toBe(
    `${head}Refused: the token's signature is wrong.\n`,
  );
});

test("says plainly that it has not checked a signature by keys that are elsewhere", async () => {
  const shown = await explain({ signer: other, changes: { jwks: undefined } });
  expect(shown).toContain("Signature: NOT checked");
  expect(shown).toContain("Entry: production");
});

test("judges an expired token as of its issue, and says so", async () => {
  const issued = now.getTime() / 1000 - 9000;
  const shown = await explain({ claims: { iat: issued, exp: issued + 300 } });
  expect(shown).toContain("The token has expired. When it was issued, it was good for:\nEntry:");
});

test("knows a ServiceAccount's issuer, whose tokens need no entry", async () => {
  const issuer = "https://cluster.test";
  const token = await mintAccountToken(key, issuer, "foo:bar", now);
  const changes = { issuer, subjects: undefined, recorded_claims: undefined };
  expect(await explain({ token, changes })).toContain("The issuer has ServiceAccounts");
});

test("takes no account beside a token, and needs one without", async () => {
  expect(await explain({ words: ["--account", "deploy"] })).toMatch(/cannot be used with/);
  const config = join(await temporaryFolder(), "rampart.toml");
  await writeFile(config, stringify({ ISSUERS: [{ issuer: "https://a.test" }] }));
  const terminal = await MemoryTerminal.ran(["policy", "explain", "-c", config]);
  expect([terminal.exitCode, terminal.said]).toEqual([2, expect.stringMatching(/--namespace: /)]);
});
