import { mkdir, readdir, rename } from "node:fs/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { authorityCommand } from "../../../../src/cli/verbs/authority/authority.ts";
import { denyCommand } from "../../../../src/cli/verbs/deny.ts";
import { operatorRefusalOf } from "../../../testkit/refusal.ts";
import { Operator } from "../../operator.ts";

const over = 'INCEPTION_DATE = "2026-11-20"';
const missing = /store does not exist, and INCEPTION_DATE 2026-11-20 is over: .*volume/;
let operator: Operator;

beforeEach(async () => {
  operator = await Operator.create(new Date("2026-11-21T12:00:00Z"));
});

const authority = (...words: readonly string[]) => operator.authority(...words);
const deny = () => operator.run(denyCommand, ["add", "node/a", "--yes"]);
const list = () => operator.authorities();

const signerWith = (key: string): string =>
  `SIGNERS = [{ name = "team-a", ${key}, callers = [{ issuer = "https://a.test", namespaces = ["*"], accounts = ["*"] }] }]`;

describe("authority init makes no root unasked", () => {
  test("without a terminal it needs --yes, and has made none before", async () => {
    const { message, exitCode } = await operator.refusal("init");
    expect(message).toMatch(
      /Make the first authority in the files in .*store\?\nThere is no terminal to ask on: add --yes$/,
    );
    expect(exitCode).toBe(2);
    expect(await list()).toEqual([]);
    await authority("init", "--yes");
    expect(await list()).toHaveLength(1);
  });

  test("at a terminal it says what may be lost, and takes no for an answer", async () => {
    await operator.configure(over);
    await mkdir(operator.file("store"), { mode: 0o700 });
    const terminal = operator.terminalWith({ isTTY: true });
    const refused = operatorRefusalOf(() => operator.run(authorityCommand, ["init"], terminal));
    terminal.type("n\r");
    expect((await refused).message).toBe("nothing was changed");
    expect(terminal.said).toContain(
      "INCEPTION_DATE 2026-11-20 is over: if the CA had records, look whether their volume is mounted.",
    );
    expect(await list()).toEqual([]);
  });

  test("and says that an authority was lost where the store has other records", async () => {
    await deny();
    expect((await operator.refusal("init")).message).toContain(
      "The store holds records (1) and no authority: one was lost.",
    );
  });
});

test("a named signer has authorities and keys of its own, which a verb gets by --signer", async () => {
  await operator.configure(signerWith('authority_key = "EC-P384"'));
  const keys = async (...words: readonly string[]) =>
    JSON.parse(await authority("list", "--json", ...words)).map(({ key }: { key: string }) => key);
  await authority("init", "--yes", "--signer", "team-a");
  expect([await keys(), await keys("--signer", "team-a")]).toEqual([[], ["EC-P384"]]);
  await authority("init", "--yes");
  expect([await keys(), await keys("--signer", "team-a")]).toEqual([["EC-P256"], ["EC-P384"]]);
  await expect(keys("--signer", "team-b")).rejects.toThrow('SIGNERS has no signer "team-b"');
});

test.each([[], ["--signer", "team-a"]])("a dry run makes no folder: %j", async (...words) => {
  await operator.configure(signerWith('authority_key = "EC-P384"'));
  expect(await authority("init", "--dry-run", ...words)).toContain("Nothing was written.");
  expect(await readdir(operator.file("."))).toEqual(["rampart.toml"]);
});

describe("a folder that is missing beside an inception date that is over", () => {
  test.each([["init", "--yes"], ["init", "--dry-run"], ["list"], ["plan"], ["request"]])(
    "is no new store for authority %s %s, which makes none",
    async (...words) => {
      await operator.configure(over);
      const { message } = await operator.refusal(...words);
      expect(message).toMatch(missing);
      expect(message).toContain('For a new CA, set INCEPTION_DATE = "2026-11-21"');
      expect(await readdir(operator.file("."))).toEqual(["rampart.toml"]);
    },
  );

  test("is none either where the date of a signer alone is over", async () => {
    await operator.configure(signerWith('inception_date = "2026-11-20"'));
    expect((await operator.refusal("list")).message).toMatch(missing);
  });

  test("refuses deny add: the CA on a volume that is not mounted would not have the denial", async () => {
    await operator.configure(over);
    expect((await operatorRefusalOf(deny)).message).toMatch(missing);
  });

  test("takes a backup: a machine may be new", async () => {
    await operator.configure(over);
    await mkdir(operator.file("store"), { mode: 0o700 });
    await authority("init", "--yes");
    const [backup, key] = [operator.file("a.age"), operator.file("identity")];
    await authority("export", "--out", backup, ...(await operator.recipient()));
    await rename(operator.file("store"), operator.file("lost"));
    await authority("restore", backup, "-i", key, "--yes");
    expect(await list()).toHaveLength(1);
  });

  test.each(['INCEPTION_DATE = "2026-11-21"', ""])("is a new store with %j", async (line) => {
    await operator.configure(line);
    expect(await list()).toEqual([]);
  });
});
