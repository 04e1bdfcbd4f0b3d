import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { vi } from "vitest";

/** What a verb prints to its standard output, in this process. @throws what the verb throws. */
export async function printed(noun: Command, words: readonly string[]): Promise<string> {
  const lines: unknown[] = [];
  vi.spyOn(console, "log").mockImplementation((line) => lines.push(line));
  await noun.exitOverride().parseAsync([...words], { from: "user" });
  return stripVTControlCharacters(lines.join("\n"));
}
