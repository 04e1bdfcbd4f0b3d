import { mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import { beforeEach, describe, expect, test } from "vitest";
import { authorityCommand } from "../../../../src/cli/verbs/authority/authority.ts";
import { denyCommand } from "../../../../src/cli/verbs/deny.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../../testkit/programs/store-toml.ts";
import { operatorRefusalOf } from "../../../testkit/refusal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");
const over = 'INCEPTION_DATE = "2026-11-20"';
const missing = /store does not exist, and INCEPTION_DATE 2026-11-20 is over: .*volume/;
let folder: string;
let kek: string;

beforeEach(async () => {
  folder = await temporaryFolder();
  kek = randomKek();
});

const terminalOf = (isTTY = false): MemoryTerminal => {
  return new MemoryTerminal({ environment: { KEK: kek }, clock: () => now, isTTY });
};

async function configured(...lines: readonly string[]): Promise<string[]> {
  const config = join(folder, "rampart.toml");
  await writeFile(config, storeToml(join(folder, "store"), ...lines));
  return ["-c", config];
}

const authority = (words: readonly string[], terminal = terminalOf()) =>
  terminal.run(authorityCommand, words);

const filesHere = async (): Promise<string[]> =>
  (await readdir(folder, { recursive: true })).filter((name) => name.includes("store"));

describe("authority init makes no root unasked", () => {
  test("without a terminal it needs --yes, and has made none before", async () => {
    const config = await configured();
    const { message, exitCode } = await operatorRefusalOf(() => authority(["init", ...config]));
    expect(message).toMatch(
      /Make the first authority in the files in .*store\?\nThere is no terminal to ask on: add --yes$/,
    );
    expect(exitCode).toBe(2);
    expect(await authority(["list", "--json", ...config])).toBe("[]");
    await authority(["init", "--yes", ...config]);
    expect(JSON.parse(await authority(["list", "--json", ...config]))).toHaveLength(1);
  });

  test("at a terminal it says what may be lost, and takes no for an answer", async () => {
    const config = await configured(over);
    await mkdir(join(folder, "store"), { mode: 0o700 });
    const terminal = terminalOf(true);
    const refused = operatorRefusalOf(() => authority(["init", ...config], terminal));
    terminal.type("n\r");
    expect((await refused).message).toBe("nothing was changed");
    expect(terminal.said).toContain(
      "INCEPTION_DATE 2026-11-20 is over: if the CA had records, look whether their volume is mounted.",
    );
    expect(await authority(["list", "--json", ...config])).toBe("[]");
  });

  test("and says that an authority was lost where the store has other records", async () => {
    const config = await configured();
    await terminalOf().run(denyCommand, ["add", "node/a", "--yes", ...config]);
    const { message } = await operatorRefusalOf(() => authority(["init", ...config]));
    expect(message).toContain("The store holds records (1) and no authority: one was lost.");
  });
});

test("a named signer has authorities and keys of its own, which a verb gets by --signer", async () => {
  const callers = '[{ issuer = "https://a.test", namespaces = ["*"], accounts = ["*"] }]';
  const signer = `{ name = "team-a", authority_key = "EC-P384", callers = ${callers} }`;
  const config = await configured(`SIGNERS = [${signer}]`);
  const keys = async (...words: readonly string[]) =>
    JSON.parse(await authority(["list", "--json", ...words, ...config])).map(
      ({ key }: { key: string }) => key,
    );
  await authority(["init", "--yes", "--signer", "team-a", ...config]);
  expect([await keys(), await keys("--signer", "team-a")]).toEqual([[], ["EC-P384"]]);
  await authority(["init", "--yes", ...config]);
  expect([await keys(), await keys("--signer", "team-a")]).toEqual([["EC-P256"], ["EC-P384"]]);
  await expect(keys("--signer", "team-b")).rejects.toThrow('SIGNERS has no signer "team-b"');
});

describe("a folder that is missing beside an inception date that is over", () => {
  test.each([["init", "--yes"], ["init", "--dry-run"], ["list"], ["plan"], ["request"]])(
    "is no new store for authority %s %s, which makes none",
    async (...words) => {
      const config = await configured(over);
      const { message } = await operatorRefusalOf(() => authority([...words, ...config]));
      expect(message).toMatch(missing);
      expect(message).toContain('For a new CA, set INCEPTION_DATE = "2026-11-21"');
      expect(await filesHere()).toEqual([]);
    },
  );

  test("is none either where the date of a signer alone is over", async () => {
    const callers = '[{ issuer = "https://a.test", namespaces = ["*"], accounts = ["*"] }]';
    const signer = `{ name = "team-a", inception_date = "2026-11-20", callers = ${callers} }`;
    const config = await configured(`SIGNERS = [${signer}]`);
    const { message } = await operatorRefusalOf(() => authority(["list", ...config]));
    expect(message).toMatch(missing);
  });

  test("refuses deny add: the CA on a volume that is not mounted would not have the denial", async () => {
    const config = await configured(over);
    const deny = () => terminalOf().run(denyCommand, ["add", "node/a", "--yes", ...config]);
    expect((await operatorRefusalOf(deny)).message).toMatch(missing);
  });

  test("takes a backup: a machine may be new", async () => {
    const config = await configured(over);
    await mkdir(join(folder, "store"), { mode: 0o700 });
    await authority(["init", "--yes", ...config]);
    const [backup, key] = [join(folder, "a.age"), join(folder, "identity")];
    const identity = await generateX25519Identity();
    await writeFile(key, identity);
    const recipient = await identityToRecipient(identity);
    await authority(["export", "--out", backup, "-r", recipient, ...config]);
    await rename(join(folder, "store"), join(folder, "lost"));
    await authority(["restore", backup, "-i", key, "--yes", ...config]);
    expect(JSON.parse(await authority(["list", "--json", ...config]))).toHaveLength(1);
  });

  test("is a new store on the day of inception, and without one", async () => {
    for (const line of ['INCEPTION_DATE = "2026-11-21"', ""]) {
      folder = await temporaryFolder();
      const config = await configured(line);
      expect(await authority(["list", "--json", ...config])).toBe("[]");
    }
  });
});
