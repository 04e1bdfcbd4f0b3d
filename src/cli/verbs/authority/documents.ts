import type { FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { AtomicFile } from "../../../program/files/atomic-file.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { TrustDocuments } from "../../../transport/http/trust-routes.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { typedInterval } from "../../terminal/command-line.ts";
import { repeatedly } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";

interface DocumentsOptions extends SessionOptions {
  readonly dir: string;
  readonly every?: number;
}

/** Adds `authority documents`. */
export function addDocuments(command: Command, terminal: Terminal): void {
  command
    .description(
      "write the documents by which relying parties verify JWT-SVIDs, for a bucket or a CDN",
    )
    .requiredOption("--dir <folder>", "the folder that stands for JWT_ISSUER")
    .option("--every <duration>", "go on, and write what has changed this often", typedInterval)
    .action((options: DocumentsOptions) => keepDocuments(terminal, options));
}

async function keepDocuments(terminal: Terminal, options: DocumentsOptions): Promise<void> {
  const write = () => Session.use(terminal, options, (s) => writeDocuments(s, options));
  // While the store cannot be read, the documents stay as they are.
  await (options.every === undefined ? write() : repeatedly(terminal, options.every, write));
}

/**
 * Writes each document that has changed below `dir`, and prints its path: the key set first, because the discovery
 * document names it.
 * @throws OperatorError without JWT_ISSUER, without a published key, and if the store cannot be read.
 */
export async function writeDocuments(
  { terminal, configuration, currentView }: Session,
  { dir }: Pick<DocumentsOptions, "dir">,
): Promise<void> {
  const { tokens } = configuration;
  if (!tokens) throw new OperatorError("JWT_ISSUER is not set: there are no documents to write");
  const view = await currentView();
  if (!view) throw new OperatorError("the store of authorities cannot be read");
  const { discovery, keySet } = await TrustDocuments.jwt(tokens, view);
  if (keySet === "") {
    throw new OperatorError("no key for JWT-SVIDs is published: the next rotation makes one");
  }
  for (const [path, text] of [
    [TrustDocuments.keySetPath, keySet],
    [TrustDocuments.discoveryPath, discovery],
  ] as const) {
    const file = join(dir, path);
    if (await SmallFile.holds(file, text)) continue;
    const folder = dirname(file);
    await StoreOwner.makeFolder(folder, await StoreOwner.of(dir), 0o755);
    const give = (handle: FileHandle) => StoreOwner.leaveFile(handle, folder);
    await AtomicFile.replace(file, text, { mode: 0o644, give });
    terminal.print(file);
  }
}
