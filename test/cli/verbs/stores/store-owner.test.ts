import { chown, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { rampart } from "../../../../src/cli/rampart.ts";
import { FileStore } from "../../../../src/node/files/file-store.ts";
import { createMemoryMint } from "../../../testkit/ca/memory-mint.ts";
import { createMemorySession } from "../../../testkit/ca/memory-session.ts";
import { createKekRing } from "../../../testkit/ca/sealed-authorities.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { now, storeChanges } from "./store-changes.ts";

/** Verbs that write no file into a store. */
const looking = [
  "authority list",
  "authority show",
  "authority plan",
  "authority requests",
  "authority root",
  "kek new",
  "kek list",
  "kek wrap",
  "kek unwrap",
  "policy explain",
  "policy replay",
  "policy test",
  "deny list",
  "root list",
  "certificate revoked",
  "certificate inspect",
  "cluster check",
  "cluster enrol",
  "issuer enrol",
  "doctor",
  "completion",
  "docs",
  "agent status",
  "agent bootstrap",
  "log tail",
  "log search",
  "log check",
  "log deletable",
  "log prove",
  "log verify",
];

/** Verbs that write files of their user's own, outside of any store. */
const writingElsewhere = [
  "acceptance",
  "authority documents",
  "certificate request",
  "init",
  "log follow",
];

/** They run as the user to whom their files belong; test/node/files/store-owner.test.ts has `serve` beside root. */
const programs = ["serve", "gateway", "distribute", "signer", "agent run"];

function verbsOf(command: Command, words: readonly string[] = []): string[] {
  return command.commands.flatMap((child) => {
    const name = [...words, child.name()];
    return child.commands.length > 0 ? verbsOf(child, name) : [name.join(" ")];
  });
}

test("this file knows what every verb writes", async () => {
  const known = [...looking, ...writingElsewhere, ...programs, ...storeChanges.map((e) => e.verb)];
  expect([...new Set(known)].toSorted()).toEqual(
    verbsOf(await rampart("", new MemoryTerminal())).toSorted(),
  );
});

const isRoot = process.geteuid?.() === 0;
/** Only root can give a folder to another user. */
const server = isRoot ? 65532 : process.geteuid?.();

describe(`in a folder of ${isRoot ? "another" : "its own"} user`, () => {
  test.each(storeChanges)(
    "$title leaves files that the folder's owner reads and writes",
    async (change) => {
      const parent = await temporaryFolder();
      if (isRoot) await chown(parent, 65532, 65532);
      const directory = join(parent, "store");
      const folder = await temporaryFolder();
      const mint = createMemoryMint(await createKekRing(), change.mint);
      const session = async () => {
        const store = { ...mint.store, ...(await FileStore.open(directory)) };
        return createMemorySession({ ...mint, store }, now);
      };
      await change.prepare(await session(), folder);
      await change.run(await session(), folder);
      const paths = ["", ...(await readdir(directory, { recursive: true }))];
      for (const path of paths) {
        const { uid, mode } = await stat(join(directory, path));
        expect({ path, uid, isOwners: (mode & 0o600) === 0o600 }).toEqual({
          path,
          uid: server,
          isOwners: true,
        });
      }
    },
  );
});
