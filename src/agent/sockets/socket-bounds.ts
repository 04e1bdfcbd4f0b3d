import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { getHeapStatistics, type HeapInfo } from "node:v8";
import { Code, ConnectError, type ContextKey, createContextKey } from "@connectrpc/connect";
import { Semaphore } from "../../foundation/shared-work.ts";

/**
 * Waits until one more response may be sent. The function returned ends the permit, as does the stream's close.
 *
 * @throws ConnectError if the stream closes before.
 */
export type TakePermit = () => Promise<() => void>;

/** The key of {@link TakePermit} in a call's context. Its default, for calls without a socket, bounds nothing. */
export const takePermit: ContextKey<TakePermit> = createContextKey<TakePermit>(
  async () => () => {},
);

/**
 * Counts the names that a stream watches, in place of those counted before. If all connections together exceed the
 * bound, the heaviest one is destroyed.
 *
 * @throws ConnectError InvalidArgument for more names than a proxy has, or longer ones: the former count stays.
 */
export type HoldNames = (names: Iterable<string>) => void;

/** The key of {@link HoldNames} in a call's context. Its default, for calls without a socket, counts nothing. */
export const holdNames: ContextKey<HoldNames> = createContextKey<HoldNames>(() => {});

/** The most unread responses. One with a large CRL takes a mebibyte. */
const maximum = { all: 64, ofSession: 2 };

/** How long a response may stay unread. A peer that reads needs milliseconds. */
const longestMilliseconds = 10_000;

/**
 * Bounds the responses that the peers of a socket have not read yet: two for each connection, and 64 in all. A
 * connection that does not read one within ten seconds is destroyed.
 */
export class UnreadResponses {
  readonly #all = new Semaphore(maximum.all);
  readonly #ofSession = new WeakMap<Http2Session, Semaphore>();

  of(stream: ServerHttp2Stream): TakePermit {
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
          // When many streams close at once, the next one must learn that it is closed before it creates a response.
          await new Promise(setImmediate);
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

/** The most connections: one for each process of a workload, in node mode for each process of the node. */
const maximumSessions = 512;

/** The most names of one stream. A node has some hundred identities. */
const maximumNames = 1_024;

/**
 * The most names of files in one stream. Envoy requests one in each stream, and a response with many would not fit into
 * memory.
 */
const maximumFiles = 4;

/** The longest name, which may have two paths in it. */
const longestName = 8_192;

/**
 * The most weight of all connections together. Each of these weighs one: a stream, a name (its file has a timer), 128
 * octets of names, and 2 KiB of a message.
 */
const maximumWeight = 8_192;
const octetsOfOne = 2_048;

/** The memory of one stream. Its last message stays in memory until the next one comes. */
interface Load {
  /** Kept here because a closed stream has no session any more. */
  readonly session: Http2Session;
  names: number;
  octets: number;
  isWhole: boolean;
}

const weightOf = ({ names, octets }: Load): number => names + octets / octetsOfOne;

/** The share of V8's heap in use beyond which the heaviest connection is destroyed. */
const heapShare = 0.8;

type Heap = () => Pick<HeapInfo, "used_heap_size" | "heap_size_limit">;

/** Bounds the connections of a Unix socket, whose peers have no addresses by which to count them. */
export class Sessions {
  /** The weight of each connection, oldest first. */
  readonly #weights = new Map<Http2Session, number>();
  readonly #ofStreams = new WeakMap<ServerHttp2Stream, Load>();
  readonly #heap: Heap;

  constructor(heap: Heap = getHeapStatistics) {
    this.#heap = heap;
  }

  /** Adds a connection. At the bound, destroys the oldest without a stream, or else the newest: old proxies keep theirs. */
  add(session: Http2Session): void {
    if (this.#weights.size >= maximumSessions) {
      const all = [...this.#weights];
      this.#destroy(all.find(([, weight]) => weight === 0) ?? all.at(-1));
    }
    this.#weights.set(session, 0);
    session.once("close", () => this.#weights.delete(session));
  }

  /** Counts a stream until it closes. */
  count(stream: ServerHttp2Stream): void {
    const { session } = stream;
    if (!session) return;
    this.#ofStreams.set(stream, { session, names: 0, octets: 0, isWhole: false });
    stream.once("close", () => {
      this.#weigh(stream, { names: 0, octets: 0 });
      this.#ofStreams.delete(stream);
    });
    this.#weigh(stream, { names: 1 });
  }

  /** Counts octets of a message that is arriving. */
  receive(stream: ServerHttp2Stream, octets: number): void {
    const { isWhole = true, octets: before = 0 } = this.#ofStreams.get(stream) ?? {};
    this.#weigh(stream, { octets: (isWhole ? 0 : before) + octets, isWhole: false });
  }

  /** Counts the names of a stream. @throws ConnectError as {@link HoldNames} */
  hold(stream: ServerHttp2Stream, held: Iterable<string>): void {
    const names = [...held];
    const files = names.filter((name) => name.startsWith("file-"));
    const isLong = names.some(({ length }) => length > longestName);
    if (names.length > maximumNames || files.length > maximumFiles || isLong) {
      throw new ConnectError("a stream has too many names, or too long ones", Code.InvalidArgument);
    }
    const weight = names.reduce((sum, { length }) => sum + 1 + length / 128, 1);
    this.#weigh(stream, { names: weight, isWhole: true });
  }

  destroy(): void {
    for (const each of [...this.#weights]) this.#destroy(each);
  }

  /** Changes the weight of a stream. If memory is short or the bound is exceeded, destroys the heaviest connection. */
  #weigh(stream: ServerHttp2Stream, next: Partial<Load>): void {
    const load = this.#ofStreams.get(stream);
    const before = load && this.#weights.get(load.session);
    if (!load || before === undefined) return;
    const change = weightOf({ ...load, ...next }) - weightOf(load);
    Object.assign(load, next);
    this.#weights.set(load.session, before + change);
    if (change <= 0) return;
    const { used_heap_size, heap_size_limit } = this.#heap();
    const all = [...this.#weights];
    const isTooMuch = all.reduce((sum, [, each]) => sum + each, 0) > maximumWeight;
    if (used_heap_size < heapShare * heap_size_limit && !isTooMuch) return;
    const [heaviest] = all.toSorted(([, one], [, other]) => other - one);
    this.#destroy(heaviest);
  }

  #destroy([session]: readonly [Http2Session?, number?] = []): void {
    if (!session) return;
    this.#weights.delete(session);
    session.destroy();
  }
}
