import { messageOf } from "../../foundation/errors.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { Checkpoint } from "../note/checkpoint.ts";
import { formatNote, type NoteSignature, parseNote } from "../note/note.ts";
import { VerifierKey } from "../note/verifier-key.ts";
import { maximumEntryOctets, Tile } from "../tile.ts";
import { planPublication, writeObjects } from "./internal/publication.ts";
import {
  formatHead,
  type LogParts,
  LogRefusal,
  type OpenedLog,
  openLog,
  signCheckpoint,
} from "./open-log.ts";
import { StagedBatch } from "./storage.ts";

/** Asks witnesses to cosign a checkpoint whose objects are all published. It does not reject. */
export type AskWitnesses = (checkpoint: string) => Promise<readonly NoteSignature[]>;

/** What a sequencer works with. */
export interface SequencerParts extends LogParts {
  /** Runs work after the events that are due now: all entries that these append form one batch. */
  readonly nextTurn: (work: () => void) => void;
  readonly askWitnesses?: AskWitnesses | undefined;
}

/** The index of an entry, or why it has none: a value, because errors lose their class between isolates. */
export type AppendResult =
  | { readonly index: number }
  | { readonly refused: "busy" | "failed" | "closed"; readonly detail: string };

/** The most entries that wait for one commit. Their octets are bounded, too. */
export const maximumWaiting = 2000;
const maximumWaitingOctets = 1_000_000;

/** An entry that the log records once: of several with the same name, the first is kept. */
export interface NamedEntry {
  readonly name: string;
  readonly entry: Bytes;
}

interface Waiting {
  readonly entry: Bytes;
  /** Resolves the promise of `append`; absent for a named entry, which nobody awaits. */
  readonly resolve?: (result: AppendResult) => void;
  readonly name?: string;
}

/**
 * The one writer of a log. It gives each entry an index once the entry is durable, many in one commit, and
 * publishes them later.
 *
 * `append` never rejects: it resolves with an index, or with the reason why there is none.
 *
 * Promises: an index is given once. An entry with an index is in every later checkpoint. No two
 * checkpoints that leave the process contradict each other, wherever it is interrupted.
 */
export class Sequencer {
  readonly #parts: SequencerParts;
  #opened: OpenedLog | undefined;
  #size: number;
  #refusal: LogRefusal | undefined;
  #failure: string | undefined;
  #waiting: Waiting[] = [];
  /** The names of entries that the log has, or that wait for the next commit. */
  #named: Set<string>;
  #waitingOctets = 0;
  readonly #publications = new SingleFlight<void>();

  private constructor(parts: SequencerParts, opened: OpenedLog) {
    this.#parts = parts;
    this.#opened = opened;
    this.#size = parts.stage.end() ?? opened.head.frontier.size;
    this.#named = new Set(opened.names);
  }

  /** @throws LogRefusal, and errors of the storage. */
  static async open(parts: SequencerParts): Promise<Sequencer> {
    return new Sequencer(parts, await openLog(parts));
  }

  get origin(): string {
    return this.#parts.origin;
  }

  /** The verifier key of the log; `undefined` while its storage must be read again. */
  get verifierKey(): string | undefined {
    return this.#opened && VerifierKey.format(this.#opened.signer.key);
  }

  /** Why the log takes no entries any more, until a person has decided; `undefined` while it does. */
  get refusal(): string | undefined {
    return this.#refusal?.message;
  }

  /** Why the last commit failed; `undefined` once a write has succeeded again. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /**
   * After a failed commit, rewrites the head to find out whether the storage is writable again: perhaps no append comes
   * that would show it. Without a failed commit it does nothing.
   */
  probe(): void {
    if (this.#failure === undefined) return;
    const { stage } = this.#parts;
    try {
      const head = stage.texts()?.head;
      if (head !== undefined) stage.save({ head });
      this.#failure = undefined;
    } catch (error) {
      this.#failure = messageOf(error);
    }
  }

  /**
   * Whether there are entries that no published checkpoint covers, or the storage must be read again; `false` once the log
   * refuses entries.
   */
  get isBehind(): boolean {
    if (this.#refusal) return false;
    return !this.#opened || this.#opened.head.frontier.size < this.#size;
  }

  /**
   * Appends an entry. The entry is durable once this resolves with an index. After `failed`, the log may have it
   * nevertheless.
   *
   * @param before Named entries. Those that the log lacks are appended before this entry. After a crash the log may
   *   contain one twice.
   */
  append(entry: Bytes, before: readonly NamedEntry[] = []): Promise<AppendResult> {
    if (this.#refusal) return refused("closed", this.#refusal.message);
    if ([{ entry }, ...before].some((each) => each.entry.length > maximumEntryOctets)) {
      return refused("failed", "the entry is too long");
    }
    if (this.#waiting.length >= maximumWaiting || this.#waitingOctets >= maximumWaitingOctets) {
      return refused("busy", "too many entries wait for a commit");
    }
    return new Promise((resolve) => {
      for (const each of before) {
        if (this.#named.has(each.name)) continue;
        this.#named.add(each.name);
        this.#enqueue(each);
      }
      this.#enqueue({ entry, resolve });
    });
  }

  #enqueue(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#waitingOctets += waiting.entry.length;
    if (this.#waiting.length === 1) this.#parts.nextTurn(() => this.#commit());
  }

  /** Writes all waiting entries as one batch. No await is inside, so commits do not overlap. */
  #commit(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#waitingOctets = 0;
    const { stage, hashEntry } = this.#parts;
    const first = this.#size;
    try {
      const entries = batch.map(({ entry }) => entry);
      stage.append(StagedBatch.of(first, entries, hashEntry));
      if (batch.some(({ name }) => name !== undefined)) {
        stage.save({ named: JSON.stringify([...this.#named]) });
      }
    } catch (error) {
      this.#failed(batch, error);
      return;
    }
    this.#failure = undefined;
    this.#size += batch.length;
    for (const [i, { resolve }] of batch.entries()) resolve?.({ index: first + i });
  }

  /** Answers the appends of a batch with `failed`. It may have been written nevertheless, so the next index comes after it. */
  #failed(batch: readonly Waiting[], error: unknown): void {
    const detail = messageOf(error);
    this.#failure = detail;
    try {
      this.#size = this.#parts.stage.end() ?? this.#size;
    } catch {
      // The stage cannot be read either. If the batch was written, its indexes are taken, so the next batch fails.
    }
    for (const { resolve, name } of batch) {
      if (name !== undefined) this.#named.delete(name);
      resolve?.({ refused: "failed", detail });
    }
  }

  /**
   * Publishes the staged entries. A call while a publication is under way joins it, and entries that come meanwhile are
   * left to the next.
   *
   * @throws LogRefusal, after which no entry is accepted. After any other error the next call reads the storage
   *   again, because memory may differ from it.
   */
  publish(): Promise<void> {
    return this.#publications.join(() => this.#publishAll());
  }

  async #publishAll(): Promise<void> {
    try {
      this.#opened ??= await openLog({ ...this.#parts, mayBegin: () => false });
      // Entries that come meanwhile are left to the next publication: under load this one would not end.
      const size = this.#size;
      while (this.#opened.head.frontier.size < size)
        this.#opened = await publishOnce(this.#parts, this.#opened);
    } catch (error) {
      this.#opened = undefined;
      if (error instanceof LogRefusal) this.#refusal = error;
      throw error;
    }
  }
}

const refused = (why: "busy" | "failed" | "closed", detail: string): Promise<AppendResult> =>
  Promise.resolve({ refused: why, detail });

/**
 * One publication. Its order is what makes an interruption harmless: commit to the signed tree, write
 * its objects, then its checkpoint, and only then delete the staged entries.
 */
async function publishOnce(parts: SequencerParts, opened: OpenedLog): Promise<OpenedLog> {
  const { signer, head } = opened;
  const { stage, objects, origin, askWitnesses } = parts;
  const committed = Checkpoint.parse(parseNote(head.signed).text).size;
  const isInterrupted = committed > head.frontier.size;
  const plan = await planPublication(parts, head.frontier, isInterrupted ? committed : undefined);
  const { frontier } = plan;
  const signed = isInterrupted ? head.signed : await signCheckpoint(signer, origin, frontier);
  if (!isInterrupted) stage.save({ head: formatHead({ ...head, signed }) });
  await writeObjects(objects, plan.objects);
  const cosignatures = (await askWitnesses?.(signed)) ?? [];
  const { text, signatures } = parseNote(signed);
  const published = formatNote({ text, signatures: [...signatures, ...cosignatures] });
  await objects.replace(Tile.checkpointPath, new TextEncoder().encode(published));
  const next = { frontier, settled: signed, signed };
  // The entries of a partial bundle stay, because its next version repeats them.
  stage.save(
    { head: formatHead(next) },
    Math.floor(frontier.size / Tile.fullWidth) * Tile.fullWidth,
  );
  return { ...opened, head: next };
}
