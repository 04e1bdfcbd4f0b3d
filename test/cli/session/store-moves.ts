import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import { stringify } from "smol-toml";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import type { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";

/** Writes a configuration with one issuer. @returns Its path. */
export async function configure(path: string, values: object): Promise<string> {
  await writeFile(path, stringify({ ...values, ISSUERS: [{ issuer: "https://a.test" }] }));
  return path;
}

export const now = new Date("2026-11-21T12:00:00Z");

/** Types `rampart authority` for this configuration. @returns What it prints. */
export const authority = (
  terminal: MemoryTerminal,
  config: string,
  ...words: readonly string[]
): Promise<string> => terminal.run(authorityCommand, [...words, "-c", config]);

/**
 * Moves a CA by a backup to a directory and, after its store is empty, back.
 *
 * @returns The authorities that the directory lists.
 */
export async function movedAndBack(
  terminal: MemoryTerminal,
  config: string,
  empty: () => void | Promise<void>,
): Promise<string> {
  const folder = dirname(config);
  const key = join(folder, "key.txt");
  const identity = await generateX25519Identity();
  await writeFile(key, identity);
  const moved = async (from: string, to: string): Promise<void> => {
    const backup = `${from}.age`;
    await authority(
      terminal,
      from,
      "export",
      "-o",
      backup,
      "-r",
      await identityToRecipient(identity),
    );
    await authority(terminal, to, "restore", backup, "-i", key, "--yes");
  };
  const values = { STORE_DIRECTORY: join(folder, "store") };
  const directory = await configure(join(folder, "directory.toml"), values);
  await moved(config, directory);
  const listed = await authority(terminal, directory, "list", "--json");
  await empty();
  await moved(directory, config);
  return listed;
}
