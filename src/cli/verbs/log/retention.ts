import { Tile } from "../../../tlog/tile.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type FollowerOptions, openFollower, synchronize } from "./follower.ts";
import type { FollowerIndex } from "./follower-index.ts";

/** The options of `log deletable`. */
export interface DeletableOptions extends FollowerOptions {
  readonly before: string;
}

/**
 * Prints the paths of the entry bundles that the log need not keep, because the copy has their entries. It deletes
 * nothing.
 * @throws OperatorError without a copy.
 */
export async function deletable(terminal: Terminal, options: DeletableOptions): Promise<void> {
  if (options.dir === undefined) throw usageError("name a copy, which keeps the entries: --dir");
  using follower = await openFollower(terminal, options);
  const { checkpoint } = await synchronize(follower);
  const bundles = deletableBundles(follower.index, options.before);
  for (let index = 0; index < bundles; index++)
    terminal.print(Tile.path({ level: "entries", index, width: Tile.fullWidth }));
  const count = bundles * Tile.fullWidth;
  terminal.notice(`rampart: ${count} of ${checkpoint.size} entries of ${checkpoint.origin}`);
}

/**
 * How many of the newest entries are never deletable: the CA may repeat a publication of this many, and reads their
 * bundles then.
 */
const longestPublication = 20_000;

/**
 * Counts the full bundles, from the first on, whose entries are all older than an instant.
 * @param before ISO 8601.
 * @param kept How many of the newest entries stay in any case.
 */
export function deletableBundles(
  index: FollowerIndex,
  before: string,
  kept: number = longestPublication,
): number {
  const size = index.state()?.frontier.size ?? 0;
  const [young] = index.all<{ idx: number | null }>(
    "SELECT min(idx) AS idx FROM entry WHERE at >= ?",
    before,
  );
  const end = Math.min(young?.idx ?? size, size - kept);
  return Math.max(0, Math.floor(end / Tile.fullWidth));
}
