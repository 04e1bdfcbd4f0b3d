import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { getHeapStatistics, type HeapInfo } from "node:v8";
import { Code, ConnectError, type ContextKey, createContextKey } from "@connectrpc/connect";
import { Semaphore } from "../../foundation/shared-work.ts";

/**
 * Waits until there is room for one more answer. The answer takes room until the returned function is called, or its
 * stream closes.
 *
 * @throws ConnectError when the stream closes before.
 */
export type TakeRoom = () => Promise<() => void>;

/** Without a socket there is always room. */
export const takeRoom: ContextKey<TakeRoom> = createContextKey<TakeRoom>(async () => () => {});

/** An answer with a large CRL takes a mebibyte. */
const maximum = { all: 64, ofSession: 2 };

/** A peer that reads needs milliseconds. */
const longestMilliseconds = 10_000;

/**
 * The answers that the peers of a socket have not read yet: few of each connection, and few in all. A connection that
 * does not read one in time ends.
 */
export class AnswerRoom {
  readonly #all = new Semaphore(maximum.all);
  readonly #ofSession = new WeakMap<Http2Session, Semaphore>();

  of(stream: ServerHttp2Stream): TakeRoom {
    const { session } = stream;
    const held = new Set<() => void>();
    stream.once("close", () => {
      for (const release of held) release();
    });
    if (!session) return () => Promise.reject(gone());
    const own = this.#ofSession.get(session) ?? new Semaphore(maximum.ofSession, this.#all);
    this.#ofSession.set(session, own);
    return () =>
      new Promise((taken, refused) => {
        void own.run(async () => {
          if (stream.destroyed) return refused(gone());
          const timer = setTimeout(() => session.destroy(), longestMilliseconds);
          await new Promise<void>((release) => {
            held.add(release);
            taken(() => {
              held.delete(release);
              release();
            });
          });
          clearTimeout(timer);
        });
      });
  }
}

const gone = (): ConnectError => new ConnectError("the caller has gone", Code.Canceled);

/** Each process of a workload has a connection, and in node mode each process of the node. */
const maximumSessions = 512;

/** The part of V8's heap in use beyond which the connection with most streams ends. */
const heapShare = 0.8;

type Heap = () => Pick<HeapInfo, "used_heap_size" | "heap_size_limit">;

/** The connections of a socket, whose peers have no addresses by which to count. */
export class Sessions {
  /** The streams of each, oldest first. */
  readonly #streams = new Map<Http2Session, number>();
  readonly #heap: Heap;

  constructor(heap: Heap = getHeapStatistics) {
    this.#heap = heap;
  }

  /** Beyond the bound the oldest without a stream goes, or else the newest: a proxy of long standing stays. */
  add(session: Http2Session): void {
    if (this.#streams.size >= maximumSessions) {
      const all = [...this.#streams];
      this.#destroy(all.find(([, streams]) => streams === 0) ?? all.at(-1));
    }
    this.#streams.set(session, 0);
    session.once("close", () => this.#streams.delete(session));
  }

  /** Counts a stream until it closes. Short of memory, the connection with most goes. */
  count(stream: ServerHttp2Stream): void {
    const { session } = stream;
    if (!session) return;
    this.#change(session, 1);
    stream.once("close", () => this.#change(session, -1));
    const { used_heap_size, heap_size_limit } = this.#heap();
    if (used_heap_size < heapShare * heap_size_limit) return;
    const [most] = [...this.#streams].toSorted(([, one], [, other]) => other - one);
    this.#destroy(most);
  }

  destroy(): void {
    for (const each of [...this.#streams]) this.#destroy(each);
  }

  #change(session: Http2Session, change: 1 | -1): void {
    const streams = this.#streams.get(session);
    if (streams !== undefined) this.#streams.set(session, streams + change);
  }

  #destroy([session]: readonly [Http2Session?, number?] = []): void {
    if (!session) return;
    this.#streams.delete(session);
    session.destroy();
  }
}
