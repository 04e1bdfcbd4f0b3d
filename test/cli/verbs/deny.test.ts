import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import { beforeEach, describe, expect, test } from "vitest";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { denyCommand } from "../../../src/cli/verbs/deny.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../testkit/programs/store-toml.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");

let folder: string;
let terminal: MemoryTerminal;

const config = () => join(folder, "rampart.toml");
const configure = (store = "store", ...lines: readonly string[]) =>
  writeFile(config(), storeToml(join(folder, store), 'PROPAGATION_INTERVAL = "30s"', ...lines));

const deny = (...words: readonly string[]) => terminal.run(denyCommand, [...words, "-c", config()]);
const authority = (...words: readonly string[]) =>
  terminal.run(authorityCommand, [...words, "-c", config()]);
const list = async () => JSON.parse(await deny("list", "--json"));

beforeEach(async () => {
  folder = await temporaryFolder();
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  await configure();
  await authority("init", "--yes");
});

describe("deny add", () => {
  test("lists the denial, and prints the lines of the configuration that state it", async () => {
    const told = await deny(
      ...["add", "node/worker-3", "--until", "12h", "--why", "kernel rootkit", "--yes"],
    );
    expect(told).toContain("Every process of the CA knows of it by 2026-11-21T12:00:30.000Z.");
    const denial = {
      subject: "node/worker-3",
      until: "2026-11-22T00:00:00.000Z",
      hasEnded: false,
      why: "kernel rootkit",
    };
    expect(await list()).toEqual([{ ...denial, stated: "store" }]);
    const lines = /^DENIED = \[\n[^\]]*\]$/m.exec(told)?.[0] ?? "";
    await configure("store", lines);
    expect(await list()).toEqual([
      { ...denial, stated: "store" },
      { ...denial, stated: "configuration" },
    ]);
    expect(await deny("list")).toMatch(
      /^node\/worker-3 +configuration +2026-11-22 00:00Z +kernel/m,
    );
  });

  test("writes nothing in a dry run", async () => {
    expect(await deny("add", "ns/shop/sa/*", "--dry-run")).toContain("Nothing was written.");
    expect(await list()).toEqual([]);
  });

  test.each([
    ["ns/shop", [], /"ns\/shop" is none of spiffe:/],
    ["spiffe://other/ns/a/sa/b", [], /is not of this trust domain, cluster.local/],
    ["node/Worker 3", [], /is none of/],
    ["ns/a/sa/b", ["--until", "soon"], /--until "soon" is neither a duration/],
    ["ns/a/sa/b", ["--until", "2026-11-21T11:00:00Z"], /nor an instant to come/],
    ["ns/a/sa/b", ["--until", "2027"], /is neither a duration/],
    ["ns/a/sa/b", ["--until", "2027-02-30T12:00:00Z"], /is neither a duration/],
    ["ns/a/sa/b", ["--why", "two\nlines"], /--why must be one line/],
    ["ns/a/sa/b", ["--why", "x".repeat(201)], /at most 200 characters/],
  ])("refuses %s %j", async (subject, more, sentence) => {
    const adding = deny("add", subject, ...more, "--yes");
    await expect(adding).rejects.toThrow(sentence);
    await expect(adding).rejects.toBeInstanceOf(OperatorError);
    expect(await list()).toEqual([]);
  });

  test("asks, and without a terminal says how to answer", async () => {
    await expect(deny("add", "ns/a/sa/b")).rejects.toThrow(/add --yes/);
    expect(await list()).toEqual([]);
  });
});

describe("deny remove", () => {
  test("removes every denial of the subject, and no other", async () => {
    await deny("add", "ns/a/sa/b", "--until", "1h", "--yes");
    await deny("add", "ns/a/sa/b", "--yes");
    await deny("add", "ns/a/sa/c", "--yes");
    expect(await list()).toHaveLength(3);
    await deny("remove", "ns/a/sa/b", "--yes");
    expect(await list()).toMatchObject([{ subject: "ns/a/sa/c" }]);
  });

  test("says that the configuration still denies", async () => {
    await deny("add", "ns/a/sa/b", "--yes");
    await configure("store", 'DENIED = ["ns/a/sa/b"]');
    expect(await deny("remove", "ns/a/sa/b", "--yes")).toContain("still denies ns/a/sa/b");
    await expect(deny("remove", "ns/a/sa/b", "--yes")).rejects.toThrow(
      /only DENIED of the configuration denies/,
    );
  });

  test("refuses a subject that nothing denies", async () => {
    await expect(deny("remove", "ns/a/sa/b", "--yes")).rejects.toThrow(/nothing denies/);
  });
});

test("a backup brings denials back", async () => {
  await deny("add", "ns/a/sa/b", "--until", "1h", "--why", "stolen", "--yes");
  await deny("add", "pod/7", "--yes");
  const before = await list();
  const identity = await generateX25519Identity();
  const [key, backup] = [join(folder, "key.txt"), join(folder, "backup.age")];
  await writeFile(key, identity);
  await authority("export", "-o", backup, "-r", await identityToRecipient(identity));
  await configure("another-store");
  await authority("restore", backup, "-i", key, "--yes");
  expect(await list()).toEqual(before);
});

test("a denial counts for every signer, and belongs into no signer's store", async () => {
  await expect(deny("add", "node/a", "--signer", "ingress", "--yes")).rejects.toThrow(
    /unknown option '--signer'/,
  );
});
