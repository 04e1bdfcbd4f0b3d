import { stripVTControlCharacters } from "node:util";
import { parse } from "smol-toml";
import { beforeAll, describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { runCommand } from "../../../../src/cli/rampart.ts";
import type { IssuerTable } from "../../../../src/config/issuer-table.ts";
import { subjectMappingOf } from "../../../../src/config/token-issuers.ts";
import { subjectFindings } from "../../../../src/status/subject-findings.ts";
import { claimsOf, platformClaims } from "../../../testkit/callers/foreign-tokens.ts";
import type { Claims } from "../../../testkit/callers/tokens.ts";
import { issuersOf } from "../../../testkit/configuration.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { refusalOf } from "../../../testkit/refusal.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

type Platform = keyof typeof platformClaims;

const now = new Date("2026-11-22T12:00:00Z");

interface Row {
  readonly options: string;
  /** The answers in the order of the questions, where no option says anything. */
  readonly typed: readonly string[];
  /** What somebody else's token, or one of another job, has otherwise. */
  readonly others: Readonly<Record<string, Claims>>;
}

const aws = "https://sts.amazonaws.com/";
const otherAws = (changes: Claims): Claims => ({
  [aws]: { ...platformClaims.aws[aws], ...changes },
});

const rows: Readonly<Record<Platform, Row>> = {
  github: {
    options: "--owner-id 7 --repository-id 74 --environment prod",
    typed: ["7", "74", "prod"],
    others: {
      "another repository": { repository_id: "75" },
      "the repository when it is another owner's": { repository_owner_id: "8" },
      "the freed name of the owner": { repository_owner_id: "8", repository_id: "99" },
      "a fork": { repository_id: "76", repository_owner_id: "9" },
      "a pull request": { event_name: "pull_request" },
      "a stranger's pull request": { event_name: "pull_request_target" },
      "a run after a stranger's": { event_name: "workflow_run" },
      "another environment": { environment: "test" },
      "no environment": { environment: undefined },
    },
  },
  gitlab: {
    options: "--issuer https://gitlab.test --namespace-id 72 --project-id 20 --ref main",
    typed: ["72", "20", "", "main"],
    others: {
      "another project": { project_id: "21", job_project_id: "21" },
      "another group": { namespace_id: "73" },
      "the pipeline of a fork": { job_project_id: "21" },
      "a merge request": { pipeline_source: "merge_request_event" },
      "another ref": { ref: "feature" },
      "a protected tag of the branch's name": { ref_type: "tag" },
      "a ref without protection": { ref_protected: "false" },
      "a person": { project_id: undefined },
    },
  },
  aws: {
    options: `--issuer ${platformClaims.aws.iss} --role ${platformClaims.aws.sub} --org-id o-a1b2c3d4e5`,
    typed: [platformClaims.aws.iss, platformClaims.aws.sub, "o-a1b2c3d4e5"],
    others: {
      "another role": { sub: "arn:aws:iam::111122223333:role/other" },
      "another account": otherAws({ aws_account: "444455556666" }),
      "another organisation": otherAws({ org_id: "o-zzzzzzzzzz" }),
      "a subject of another principal": otherAws({ principal_id: "arn:aws:iam::1:role/x" }),
    },
  },
  google: {
    options: "--service-account-id 112010400000000710080",
    typed: ["112010400000000710080"],
    others: {
      "the same address again": { sub: "112010400000000710081" },
      "an address that is not verified": { email_verified: false },
    },
  },
  azure: {
    options: `--tenant-id ${platformClaims.azure.tid} --object-id ${platformClaims.azure.oid}`,
    typed: [platformClaims.azure.tid, platformClaims.azure.oid],
    others: {
      "another tenant": { tid: "00000000-9fd5-4d4b-8f7f-0f2f2a6a1c55" },
      "another identity": { oid: "00000000-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
    },
  },
  spiffe: {
    options:
      "--issuer https://oidc.other.test --spiffe-id spiffe://other.test/ns/billing/sa/report",
    typed: ["https://oidc.other.test", "spiffe://other.test/ns/billing/sa/report"],
    others: {
      "another workload": { sub: "spiffe://other.test/ns/billing/sa/other" },
      "another trust domain": { sub: "spiffe://third.test/ns/billing/sa/report" },
    },
  },
};

const audienceOf = (platform: Platform): string => [platformClaims[platform].aud].flat()[0] ?? "";

const places = (platform: Platform): string =>
  `--audience ${audienceOf(platform)} --namespace ci --account deploy`;

async function enrol(words: string, terminal = new MemoryTerminal()): Promise<MemoryTerminal> {
  await runCommand(["issuer", "enrol", ...words.split(" ")], terminal);
  return terminal;
}

const printedTable = async (words: string): Promise<unknown> =>
  (parse((await enrol(`${words} --for serve`)).printed)["ISSUERS"] as unknown[])[0];

function tableOf(printed: unknown): IssuerTable {
  const [table] = issuersOf(printed);
  if (!table) throw new Error("no table");
  return table;
}

function given(table: IssuerTable, claims: Claims) {
  const mapped = subjectMappingOf(table)?.map(claims, table.audiences, now);
  return mapped?.account;
}

describe.each(Object.entries(rows) as [Platform, Row][])(
  "the table of %s",
  (platform, { options, typed, others }) => {
    const words = `${platform} ${options} ${places(platform)}`;
    let printed: unknown;

    beforeAll(async () => {
      printed = await printedTable(words);
    });

    test("gives the right caller its identity, and its token's issuer is known", async () => {
      const table = tableOf(printed);
      expect(table).toMatchObject({ issuer: platformClaims[platform].iss, namespaces: ["ci"] });
      expect(given(table, claimsOf(platform, now))).toEqual({ namespace: "ci", name: "deploy" });
    });

    test.each(Object.entries({ ...others, "another audience": { aud: "https://other.test" } }))(
      "gives nothing to %s",
      async (_, changes) => {
        const table = tableOf(printed);
        const claims = { ...claimsOf(platform, now), ...changes };
        expect(await refusalOf(async () => given(table, claims))).toMatchObject({
          reason: "credential-rejected",
        });
      },
    );

    test("brings no finding, on any platform", async () => {
      const worker = parse((await enrol(words)).printed)["vars"] as { ISSUERS: unknown[] };
      const helm = parseYaml((await enrol(`${words} --for helm`)).printed) as {
        issuers: unknown[];
      };
      for (const table of [worker.ISSUERS[0], helm.issuers[0], printed]) {
        expect(subjectFindings(issuersOf(table))).toEqual([]);
      }
    });

    test("is the same when an operator is asked", async () => {
      const terminal = new MemoryTerminal({ isTTY: true });
      const issuer = platform === "gitlab" ? " --issuer https://gitlab.test" : "";
      const answering = enrol(`${platform} --for serve${issuer}`, terminal);
      let seen = 0;
      for (const line of [...typed, audienceOf(platform), "ci", "deploy"]) {
        await eventually(async () => {
          expect(stripVTControlCharacters(terminal.said.slice(seen))).toMatch(/: $/);
        });
        seen = terminal.said.length;
        terminal.type(`${line}\r`);
      }
      await answering;
      const [table] = parse(terminal.printed)["ISSUERS"] as unknown[];
      expect(table).toEqual(printed);
    });
  },
);

test("a protected ref takes the place of an environment at GitHub", async () => {
  const words = "github --owner-id 7 --repository-id 74 --ref refs/heads/main";
  const table = tableOf(await printedTable(`${words} ${places("github")}`));
  const claims = claimsOf("github", now);
  expect(given(table, claims)?.name).toBe("deploy");
  for (const other of [{ ref: "refs/heads/x" }, { ref_protected: "false" }]) {
    expect(await refusalOf(async () => given(table, { ...claims, ...other }))).toBeDefined();
  }
});

test("only a CA that can remember tokens is told to take each once", async () => {
  const words = `spiffe ${rows.spiffe.options} ${places("spiffe")}`;
  expect((await enrol(`${words} --for serve`)).printed).toContain("once = true");
  expect((await enrol(words)).printed).toMatch(/^(?!.*once).*maximum_age = "10m"/s);
});

test.each([
  ["github --owner-id 7 --environment prod", /missing:\n {2}--repository-id .*\n {2}--audience/],
  ["github --owner-id 7 --repository-id 74", /--ref <ref>/],
  ["github --owner-id octo-org", /--owner-id <number> is not its owner's id/],
  ["github --owner-id 7 --repository-id 74 --ref main", /--ref <ref> is not/],
  ["github --owner-id 7 --repository-id 74 --environment *", /--environment <name> is not/],
  ["gitlab --namespace-id 72 --project-id *", /--project-id <number> is not/],
  ["aws --issuer https://a.test --role arn:aws:iam::111122223333:user/me", /--role <arn> is not/],
  ["google --tenant-id 7", /google is asked for no tenantId/],
  [
    "google --service-account-id build@prod.iam.gserviceaccount.com",
    /is not its service account's number/,
  ],
])("refuses %s", async (words, sentence) => {
  const { printed, said, exitCode } = await enrol(words);
  expect([printed, exitCode]).toEqual(["", 2]);
  expect(said).toMatch(sentence);
});

test.each(["sts.amazonaws.com", "https://github.com/octo-org", "istio-ca"])(
  "refuses the audience %s, which others have too",
  async (audience) => {
    const place = `--audience ${audience} --namespace ci --account deploy`;
    const { printed, said } = await enrol(`github ${rows.github.options} ${place}`);
    expect(printed).toBe("");
    expect(said).toMatch(/audiences: must be given with subjects, and be this CA's alone/);
  },
);
