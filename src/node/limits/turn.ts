import { AsyncLocalStorage } from "node:async_hooks";
import { CaError } from "../../foundation/errors.ts";
import type { WorkSharing } from "../../foundation/shared-work.ts";
import type { FairQueue, Work } from "./fair-queue.ts";
import { sharePromises } from "./promise-sharing.ts";

/** The turn of a request in the fair queue, which may give it to another address while the work goes on. */
export class Turn implements Work {
  /** The turn of the current request, so that code deep in the call stack can give it up during a wait. */
  static readonly #current = new AsyncLocalStorage<Turn>();
  readonly #queue: FairQueue;
  readonly address: string;
  #isHeld = false;
  #isOver = false;
  #yield = (): void => {};
  #settle = (_comes: boolean): void => {};

  constructor(queue: FairQueue, address: string) {
    this.#queue = queue;
    this.address = address;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Waits for the turn. @returns `false` if too many wait, or the request ends or is shed meanwhile. */
  take(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      if (this.#isOver || this.#queue.take(this)) this.shed();
    });
  }

  begin(done: () => void): void {
    this.#isHeld = true;
    this.#yield = done;
    this.#settle(true);
  }

  shed(): void {
    this.#settle(false);
  }

  /** Gives the turn back to the queue. @returns Whether it was held. */
  yield(): boolean {
    const wasHeld = this.#isHeld;
    this.#isHeld = false;
    this.#yield();
    return wasHeld;
  }

  /** Ends this and every later wait for the turn, because the request is over, although some of its work may go on. */
  end(): void {
    this.#isOver = true;
    // The queue would otherwise keep the request in memory until its turn comes.
    this.#queue.withdraw(this);
    this.shed();
  }

  run<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    return Turn.#current.run(this, work);
  }

  /**
   * Waits for another service, such as an issuer, an API server or a store, without the turn of the current request, so
   * that a service that never responds blocks nobody. Then it waits for a new turn. Outside of requests it only waits.
   *
   * @param after For waits that are usually short: how many milliseconds the turn is kept before it is given back.
   * @throws CaError `request-abandoned` if the request is refused or ends meanwhile.
   */
  static async aside<Answer>(
    wait: () => Promise<Answer>,
    { after, passed }: { readonly after?: number; readonly passed?: () => void } = {},
  ): Promise<Answer> {
    const turn = Turn.#current.getStore();
    let hasPassed = false;
    const pass = (): void => {
      hasPassed = turn?.yield() ?? false;
      if (hasPassed) passed?.();
    };
    const timer = after === undefined ? pass() : setTimeout(pass, after);
    try {
      return await wait();
    } finally {
      clearTimeout(timer ?? undefined);
      if (turn && hasPassed) await turn.#retake();
    }
  }

  async #retake(): Promise<void> {
    if (await this.take()) return;
    throw new CaError({ reason: "request-abandoned" }, "the request has lost its place");
  }
}

/** Single flight of work that several requests need: a fetch of keys, a load of the store. All wait without their turns. */
export const shareAside: WorkSharing = (capacity, longestMilliseconds) => {
  const { join } = sharePromises(capacity, longestMilliseconds);
  return { join: (work) => Turn.aside(() => join(work)) };
};
