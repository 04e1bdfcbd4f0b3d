/** The signals that tell a program to end, with their numbers. */
const numbers = { SIGINT: 2, SIGTERM: 15 } as const;

/** A signal that ends a program. */
export type EndingSignal = keyof typeof numbers;

const endingSignals = Object.keys(numbers) as readonly EndingSignal[];

type Listener = (name: EndingSignal) => void;

/** The listeners of this file, so that those of libraries are not called. */
const own = new WeakSet<object>();

/** The handling of SIGINT and SIGTERM, which tell this process to end. */
export const Signals = {
  /**
   * Acts on every signal that tells this process to end, until it is disposed of. Of several handlers, only the newest
   * acts, so that a verb within a program need not know of the others.
   */
  handle(act: Listener): Disposable {
    function received(name: EndingSignal): void {
      const innermost = process.listeners(name).findLast((listener) => own.has(listener));
      if (innermost === received) act(name);
    }
    own.add(received);
    for (const name of endingSignals) process.on(name, received);
    return {
      [Symbol.dispose]: () => {
        for (const name of endingSignals) process.off(name, received);
      },
    };
  },

  /** The exit code that a shell gives to a program which the signal has ended. */
  exitCodeOf: (name: EndingSignal): number => 128 + numbers[name],

  /** Waits for the first signal that tells this process to end. A second one goes to the handlers before this one. */
  watch(): SignalWatch {
    const { promise, resolve } = Promise.withResolvers<EndingSignal>();
    const handling = Signals.handle((name) => {
      handling[Symbol.dispose]();
      resolve(name);
    });
    return { signal: promise, [Symbol.dispose]: () => handling[Symbol.dispose]() };
  },
};

/** The first signal that tells this process to end. A second one goes to the handlers before this one. */
interface SignalWatch extends Disposable {
  readonly signal: Promise<EndingSignal>;
}
