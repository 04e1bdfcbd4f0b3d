import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { authorityCommand } from "../../../../src/cli/verbs/authority/authority.ts";
import type { OperatorError } from "../../../../src/foundation/errors.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../../testkit/programs/store-toml.ts";
import { operatorRefusalOf } from "../../../testkit/refusal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");
let config: string;
let terminal: MemoryTerminal;

const authority = (...words: readonly string[]) =>
  terminal.run(authorityCommand, [...words, "-c", config]);

const list = async (): Promise<{ id: string; phase: string; signs: boolean }[]> =>
  JSON.parse(await authority("list", "--json"));

const refusal = (...words: readonly string[]): Promise<OperatorError> =>
  operatorRefusalOf(() => authority(...words));

beforeEach(async () => {
  const folder = await temporaryFolder();
  config = join(folder, "rampart.toml");
  await writeFile(
    config,
    storeToml(
      join(folder, "store"),
      'MAX_WORKLOAD_CERT_TTL = "24h"\nPROPAGATION_INTERVAL = "0s"\nAUTHORITY_LIFETIME = "720h"',
    ),
  );
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  await authority("init", "--yes");
});

test("shows who signs, and from when the new one does, and changes nothing without an answer", async () => {
  const before = await list();
  const { message, exitCode } = await refusal("rotate");
  const [signer, start, question, remedy] = message.split("\n");
  expect(signer).toBe(
    `${before[0]?.id.slice(0, 12)} signs now, until 2026-12-19 12:00Z at the latest.`,
  );
  expect(start).toMatch(
    /^A new authority is minted\. It is published from 2026-11-21 12:00Z, and signs from 2026-11-22 12:00Z until 2026-12-[0-9: ]+Z\.$/,
  );
  expect(question).toMatch(/^Rotate the files in .*store\?$/);
  expect(remedy).toBe("There is no terminal to ask on: add --yes");
  expect(exitCode).toBe(2);
  expect(await list()).toEqual(before);
});

test("a dry run asks nobody, and writes nothing", async () => {
  const before = await list();
  expect(await authority("rotate", "--dry-run")).toMatch(/^put authority /m);
  expect(await list()).toEqual(before);
});

test("mints with --yes, and says what to type next, on the same CA", async () => {
  const before = terminal.said.length;
  await authority("rotate", "--yes");
  const said = terminal.said.slice(before);
  expect(said).toMatch(/^On the files in .*store:\n/);
  expect(said).toContain(`\nNext:\n  rampart authority plan --config ${config}\n`);
  const phases = (await list()).map(({ phase, signs }) => `${phase} ${signs}`);
  expect(phases.toSorted()).toEqual(["published false", "signing true"]);
});

test("refuses a second one while the first waits, and asks nothing", async () => {
  await authority("rotate", "--yes");
  const { message, exitCode } = await refusal("rotate", "--yes");
  expect(message).toMatch(/^a successor is prepared: [0-9a-f]{12} signs from 2026-11-22 12:00Z$/);
  expect(exitCode).toBe(1);
});
