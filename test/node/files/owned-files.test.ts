import { chown, glob, readdir, readFile, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { initCommand } from "../../../src/cli/verbs/init/init.ts";
import { openFollower } from "../../../src/cli/verbs/log/follower.ts";
import { now, storeChanges } from "../../cli/verbs/stores/store-changes.ts";
import { createMemoryMint } from "../../testkit/ca/memory-mint.ts";
import { createMemorySession } from "../../testkit/ca/memory-session.ts";
import { createKekRing } from "../../testkit/ca/sealed-authorities.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const owner = 65532;

/** Each thing below a folder, with its owner. */
async function ownersIn(folder: string): Promise<Record<string, number>> {
  const paths = await readdir(folder, { recursive: true });
  const stats = await Promise.all(paths.map((path) => stat(join(folder, path))));
  return Object.fromEntries(paths.map((path, i) => [path, stats[i]?.uid ?? -1]));
}

/** Writes into a folder below another user's, and names a file that it leaves there. */
const writers: readonly (readonly [string, (folder: string) => Promise<string>])[] = [
  [
    "serve, with an issuance log",
    async (folder) => {
      const { end } = await serveCa({
        STORE_DIRECTORY: folder,
        LOG_ORIGIN: "log.example.com/2026",
        ISSUERS: [{ issuer: "https://a.test" }],
      });
      onTestFinished(end);
      return "stage.sqlite-wal";
    },
  ],
  [
    "log follow",
    async (dir) => {
      // There is no log: what remains is the empty copy.
      await expect(
        openFollower(new MemoryTerminal(), { dir, url: "http://127.0.0.1:1/log/0" }),
      ).rejects.toThrow();
      return "log.sqlite";
    },
  ],
  [
    "authority export",
    async (folder) => {
      const { prepare, run } = storeChanges.find(({ verb }) => verb === "authority export") ?? {};
      const session = createMemorySession(createMemoryMint(await createKekRing()), now);
      await prepare?.(session, folder);
      await run?.(session, join(folder, ".."));
      return "";
    },
  ],
  [
    "init",
    async (folder) => {
      await new MemoryTerminal({ clock: () => now }).run(initCommand, [folder]);
      return "wrangler.toml";
    },
  ],
];

test.each(writers)("all that %s writes belongs to its folder's owner", async (_, write) => {
  const parent = await temporaryFolder();
  const user = process.geteuid?.();
  // Only root can give files away.
  if (user === 0) await chown(parent, owner, owner);
  const name = await write(join(parent, "made"));
  const owners = await ownersIn(parent);
  expect(Object.keys(owners).some((path) => path.endsWith(name))).toBe(true);
  expect(new Set(Object.values(owners))).toEqual(new Set([user === 0 ? owner : user]));
});

/** These write below the machine's temporary folder, for a program that they start and wait for. */
const forOneProgram = new Set(["cli/session/remote-namespace.ts", "cli/session/local-worker.ts"]);

/** The one file that makes folders, and files for libraries. */
const owners = "node/files/store-owner.ts";

test("nothing that a server or a verb writes is left to whoever runs it", async () => {
  const careless: string[] = [];
  for await (const path of glob("{node,cli}/**/*.ts", {
    cwd: resolve("src"),
    exclude: ["**/.tsc"],
  })) {
    if (forOneProgram.has(path) || path === owners) continue;
    const text = await readFile(resolve("src", path), "utf8");
    const writes =
      /\b(?:mkdir(?:Sync)?|writeFile(?:Sync)?|(?<!file\.)appendFile|createWriteStream|copyFile|cp)\(/;
    const replaces = /\bAtomicFile\.(?:replace|create)\(/.test(text);
    const opens =
      /new DatabaseSync\((?!":memory:")/.test(text) && path !== "node/files/database.ts";
    const gives = /\bStoreOwner\.leaveFile\(|\bgiveToOwner\(/.test(text);
    if (writes.test(text) || opens || (replaces && !gives)) careless.push(path);
  }
  expect(careless).toEqual([]);
});
