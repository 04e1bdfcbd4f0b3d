import { hash } from "node:crypto";
import type { ConditionalObjects } from "../../../src/node/log/object-stage.ts";

type Octets = Uint8Array<ArrayBuffer>;
type Stored = Readonly<{ octets: Octets; version: string }>;

/** What becomes of a write beside taking effect and being answered. */
export type Fate =
  /** It takes effect, its answer is lost, and the client's repetition meets a conflict. */
  | "lost"
  /** As `lost`, and another process writes over it before the client repeats it. */
  | "overtaken"
  /** It takes effect, and nobody answers. */
  | "unanswered"
  /** It takes no effect, and nobody answers. */
  | "failed"
  /** It takes effect after the next writes, if its condition still holds. */
  | "late"
  | "fine";

const repeatTurns = 30;

/** A bucket in memory. Each request takes a turn of the event loop, so that processes overtake each other. */
export class MemoryBucket {
  objects = new Map<string, Stored>();
  /** The fates of the next writes. */
  fates: Fate[] = [];
  /** Every checkpoint that was ever there. */
  readonly checkpoints: { readonly path: string; readonly text: string }[] = [];
  /** The paths of writes in their order. */
  readonly written: string[] = [];
  #late: (() => void)[] = [];
  #count = 0;

  /** The bucket as one process sees it, until that is killed: then nothing of it arrives any more. */
  process(): ConditionalObjects & { kill: () => void } {
    let isAlive = true;
    const arrive = async (): Promise<void> => {
      await new Promise(setImmediate);
      if (!isAlive) await new Promise(() => {});
    };
    return {
      kill: () => {
        isAlive = false;
      },
      read: async (path) => {
        await arrive();
        return this.objects.get(path);
      },
      write: async (path, octets, version, digest = hash("sha256", octets, "hex")) => {
        await arrive();
        if (digest !== hash("sha256", octets, "hex")) throw new Error("of another digest");
        const [fate] = this.fates;
        const written = this.#write(path, octets, version);
        const stored = this.objects.get(path);
        // Others may read it, and write over it, before the client gives up waiting and repeats.
        for (let i = 0; fate === "lost" && i < repeatTurns; i++) await arrive();
        while (fate === "overtaken" && this.objects.get(path) === stored) await arrive();
        return written;
      },
    };
  }

  #write(path: string, octets: Octets, version: string | undefined): string | undefined {
    const fate = this.fates.shift() ?? "fine";
    if (fate === "late") {
      this.#late.push(() => this.#store(path, octets, version));
      throw new Error("nobody answers");
    }
    const stored = fate === "failed" ? undefined : this.#store(path, octets, version);
    for (const each of this.#late.splice(0, 1)) each();
    if (fate === "failed" || fate === "unanswered") throw new Error("nobody answers");
    return fate === "lost" || fate === "overtaken" ? undefined : stored;
  }

  #store(path: string, octets: Octets, version: string | undefined): string | undefined {
    if (this.objects.get(path)?.version !== version) return undefined;
    const stored = { octets: octets.slice(), version: `v${++this.#count}` };
    this.objects.set(path, stored);
    this.written.push(path);
    if (path.endsWith("checkpoint"))
      this.checkpoints.push({ path, text: new TextDecoder().decode(octets) });
    return stored.version;
  }
}
