import type { DatabaseSync } from "node:sqlite";
import { OperatorError } from "../../../../foundation/errors.ts";
import { StoreOwner } from "../../../../node/files/store-owner.ts";
import type { Position } from "./file-mark.ts";

/** What is about to be written to a file, and the position of its source after it. */
export interface PendingWrite {
  readonly octets: Uint8Array;
  readonly source: string;
  readonly position: Position;
}

/** Stores how far each source is exported to one target. Only one process can have it open. */
export class ExportState implements Disposable {
  readonly #database: DatabaseSync;

  /** Opens the file of the positions, or makes it. @throws OperatorError if another process has it open. */
  constructor(path: string) {
    try {
      this.#database = StoreOwner.openDatabase(
        path,
        `CREATE TABLE IF NOT EXISTS position (
          source TEXT PRIMARY KEY, at INTEGER NOT NULL, mark TEXT NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS pending (
          id INTEGER PRIMARY KEY, octets BLOB NOT NULL, source TEXT NOT NULL, at INTEGER NOT NULL,
          mark TEXT NOT NULL) STRICT;`,
      );
    } catch (error) {
      const why = error instanceof Error ? error.message : "";
      const sentence = `${path} cannot be used (${why}): does another process export to the same place?`;
      throw new OperatorError(sentence, { cause: error });
    }
  }

  /** How far a source is exported; `undefined` if it never was. */
  position(source: string): Position | undefined {
    return this.#row<Position & { source: string }>(
      "SELECT at, mark FROM position WHERE source = ?",
      source,
    );
  }

  /** Stores positions and deletes the pending write, in one transaction. */
  save(positions: Readonly<Record<string, Position>>): void {
    this.#database.exec("BEGIN");
    for (const [source, { at, mark }] of Object.entries(positions)) {
      this.#database
        .prepare("INSERT OR REPLACE INTO position VALUES (?, ?, ?)")
        .run(source, at, mark);
    }
    this.#database.exec("DELETE FROM pending; COMMIT");
  }

  /** The write that was prepared and not saved, which a crash may have interrupted; `undefined` if there is none. */
  pending(): PendingWrite | undefined {
    const row = this.#row<PendingWrite & Position>("SELECT * FROM pending");
    return (
      row && { octets: row.octets, source: row.source, position: { at: row.at, mark: row.mark } }
    );
  }

  /** Stores a write before it is made. There must be no other. */
  prepare({ octets, source, position }: PendingWrite): void {
    this.#database
      .prepare("INSERT INTO pending VALUES (1, ?, ?, ?, ?)")
      .run(octets, source, position.at, position.mark);
  }

  #row<Row>(query: string, ...values: readonly string[]): Row | undefined {
    return this.#database.prepare(query).get(...values) as unknown as Row | undefined;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
