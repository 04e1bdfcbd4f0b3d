import { heldOctets } from "./held-memory.ts";

/** How long no request may have begun before garbage is collected, in milliseconds. */
const quietMilliseconds = 5_000;

/** What the process must have taken since the last collection to make another one worthwhile, in octets. */
const worthwhileOctets = 8 * 1024 * 1024;

/** The process whose garbage is collected. */
export interface Collectable {
  /** Collects all garbage, and gives memory back to the machine. */
  readonly collect: () => void;
  /** Octets that the process holds. */
  readonly held: () => number;
}

/** This process; `undefined` if Node was started without `--expose-gc`. */
export function thisProcess(): Collectable | undefined {
  const { gc } = globalThis;
  // An ordinary collection frees memory, but gives little of it back.
  const collect = gc && (() => gc({ type: "major", flavor: "last-resort" }));
  return collect && { collect, held: () => heldOctets() ?? 0 };
}

/**
 * Collects garbage when the process has become quiet. V8 collects when a program allocates, so a
 * process without work would keep what a flood took.
 */
export class QuietCollection {
  readonly #process: Collectable;
  #heldBefore = 0;
  /** Native memory of sockets leaves after the objects that own it, for the next collection. */
  #hasFreedMuch = false;
  #collectedAt = 0;

  constructor(process: Collectable) {
    this.#process = process;
  }

  /** @param begunAt When the last request began, on the same clock as `now`. */
  sweep(begunAt: number, now: number): void {
    if (now - Math.max(begunAt, this.#collectedAt) < quietMilliseconds) return;
    const held = this.#process.held();
    if (!this.#hasFreedMuch && held < this.#heldBefore + worthwhileOctets) return;
    this.#process.collect();
    this.#heldBefore = this.#process.held();
    this.#hasFreedMuch = held - this.#heldBefore >= worthwhileOctets;
    this.#collectedAt = now;
  }
}
