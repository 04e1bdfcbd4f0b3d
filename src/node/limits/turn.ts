import { AsyncLocalStorage } from "node:async_hooks";
import { CaError } from "../../foundation/errors.ts";
import type { WorkSharing } from "../../foundation/shared-work.ts";
import { sharePromises } from "../../program/promise-sharing.ts";
import type { FairQueue, Work } from "./fair-queue.ts";

/** The turn of a request. Work passes it on when another address needs one, and goes on without. */
export class Turn implements Work {
  /** Known to all that a request does: it waits for others far below, behind the ports of a platform. */
  static readonly #current = new AsyncLocalStorage<Turn>();
  readonly #queue: FairQueue;
  readonly address: string;
  #isHeld = false;
  #isOver = false;
  #pass = (): void => {};
  #settle = (_comes: boolean): void => {};

  constructor(queue: FairQueue, address: string) {
    this.#queue = queue;
    this.address = address;
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** @returns Whether it comes: not if too many wait, or if the request leaves or gives way meanwhile. */
  take(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      if (this.#isOver || this.#queue.take(this)) this.shed();
    });
  }

  begin(done: () => void): void {
    this.#isHeld = true;
    this.#pass = done;
    this.#settle(true);
  }

  shed(): void {
    this.#settle(false);
  }

  /** @returns Whether it was held. */
  pass(): boolean {
    const wasHeld = this.#isHeld;
    this.#isHeld = false;
    this.#pass();
    return wasHeld;
  }

  /** Ends the wait for it. There is no other: its request has left, or a wait that nobody waits for has outlived its work. */
  end(): void {
    this.#isOver = true;
    // Its caller would otherwise hold what it has sent until its turn comes.
    this.#queue.withdraw(this);
    this.shed();
  }

  run<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    return Turn.#current.run(this, work);
  }

  /**
   * Waits for somebody else's answer: that of an issuer, an API server, a store. The turn goes to other requests
   * meanwhile, so that who never answers keeps nobody waiting.
   *
   * @param after Where a wait is usually short: the milliseconds for which the turn is kept.
   * @throws CaError `request-abandoned` where the request has lost its place.
   */
  static async aside<Answer>(
    wait: () => Promise<Answer>,
    { after, passed }: { readonly after?: number; readonly passed?: () => void } = {},
  ): Promise<Answer> {
    const turn = Turn.#current.getStore();
    let hasPassed = false;
    const pass = (): void => {
      hasPassed = turn?.pass() ?? false;
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

/** Shares work that one request does for others: a fetch of keys, a load of the store. All wait aside. */
export const shareAside: WorkSharing = (room, longestMilliseconds) => {
  const { join } = sharePromises(room, longestMilliseconds);
  return { join: (work) => Turn.aside(() => join(work)) };
};
