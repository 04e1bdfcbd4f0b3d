import { Hash } from "../../../src/tlog/merkle.ts";
import { Checkpoint } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import type { SequencerParts } from "../../../src/tlog/sequencer/sequencer.ts";
import type {
  LogKeys,
  LogObjects,
  LogStage,
  StagedBatch,
  StagedTexts,
} from "../../../src/tlog/sequencer/storage.ts";

type Octets = Uint8Array<ArrayBuffer>;

/** Throws at the nth write from now on, before or after it has taken effect; and at all later ones. */
class Saboteur {
  #left = Number.POSITIVE_INFINITY;
  #takesEffect = false;

  arm(writes: number, takesEffect: boolean): void {
    this.#left = writes;
    this.#takesEffect = takesEffect;
  }

  disarm(): void {
    this.#left = Number.POSITIVE_INFINITY;
  }

  around(write: () => void): void {
    this.#left--;
    if (this.#left > 0 || (this.#left === 0 && this.#takesEffect)) write();
    if (this.#left <= 0) throw new Error("killed");
  }
}

/** A stage in memory. */
class MemoryStage implements LogStage {
  rows: StagedBatch[] = [];
  kept: StagedTexts | undefined;
  readonly saboteur: Saboteur;

  constructor(saboteur: Saboteur = new Saboteur()) {
    this.saboteur = saboteur;
  }

  texts(): StagedTexts | undefined {
    return this.kept;
  }

  batches(from: number): readonly StagedBatch[] {
    return this.rows.filter(({ first }) => first >= from).slice(0, 3);
  }

  end(): number | undefined {
    const last = this.rows.at(-1);
    return last && last.first + last.count;
  }

  append(batch: StagedBatch): void {
    this.saboteur.around(() => {
      if (this.rows.some(({ first }) => first === batch.first)) throw new Error("taken");
      this.rows.push(batch);
    });
  }

  save(texts: Partial<StagedTexts>, deleteUpTo = 0): void {
    this.saboteur.around(() => {
      this.kept = { key: "", head: "", ...this.kept, ...texts };
      this.rows = this.rows.filter(({ first, count }) => first + count > deleteUpTo);
    });
  }
}

/** A publication in memory. */
export class MemoryObjects implements LogObjects {
  readonly stored = new Map<string, Octets>();
  /** Every checkpoint that readers could see. */
  readonly checkpoints: string[] = [];
  readonly saboteur: Saboteur;

  constructor(saboteur: Saboteur = new Saboteur()) {
    this.saboteur = saboteur;
  }

  readonly read = async (path: string): Promise<Octets | undefined> => this.stored.get(path);

  async create(path: string, octets: Octets): Promise<Octets | undefined> {
    this.saboteur.around(() => {
      if (!this.stored.has(path)) this.stored.set(path, octets);
    });
    return this.stored.get(path);
  }

  async replace(path: string, octets: Octets): Promise<void> {
    this.saboteur.around(() => {
      this.stored.set(path, octets);
      this.checkpoints.push(new TextDecoder().decode(octets));
    });
  }
}

/** Keys that rest in memory, under their index as the record. */
export function memoryKeys(origin: string): LogKeys {
  const keys: CryptoKeyPair[] = [];
  const open = async (record: string) => {
    const pair = keys[Number(record)];
    if (!pair) throw new Error("no such key");
    const publicKey = await VerifierKey.raw(pair.publicKey);
    return { signer: Checkpoint.createSigner(origin, pair.privateKey, publicKey), record };
  };
  return {
    open,
    create: async () => open(String(keys.push(await VerifierKey.generate()) - 1)),
  };
}

export const memoryOrigin = "log.example.com/2026";

/** The parts of a log in memory. Reopen it on the same parts after a crash. */
export function memoryParts(changes: Partial<SequencerParts> = {}) {
  const saboteur = new Saboteur();
  const stage = new MemoryStage(saboteur);
  const objects = new MemoryObjects(saboteur);
  const parts: SequencerParts = {
    origin: memoryOrigin,
    stage,
    objects,
    keys: memoryKeys(memoryOrigin),
    mayBegin: () => true,
    hashEntry: Hash.ofLeaf,
    yieldTurn: async () => {},
    nextTurn: setImmediate,
    ...changes,
  };
  return { ...parts, saboteur, stage, objects };
}
