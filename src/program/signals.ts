/** The signals that tell a program to end, with their numbers. */
const numbers = { SIGINT: 2, SIGTERM: 15 } as const;

/** A signal that ends a program. */
export type EndingSignal = keyof typeof numbers;

const endingSignals = Object.keys(numbers) as readonly EndingSignal[];

type Listener = (name: EndingSignal) => void;

/** The listeners of this file, so that those of libraries are not called. */
const own = new WeakSet<object>();

/**
 * Acts on every signal that tells this process to end, until it is disposed of. Of several handlers, only the newest
 * acts, so that a verb within a program need not know of the others.
 */
export function handleSignals(act: Listener): Disposable {
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
}

/** The exit code that a shell gives to a program which the signal has ended. */
export const exitCodeOf = (name: EndingSignal): number => 128 + numbers[name];

/** The first signal that tells this process to end. A second one goes to whoever listened before. */
interface SignalWatch extends Disposable {
  readonly signal: Promise<EndingSignal>;
}

/** Waits for the first signal that tells this process to end. A second one goes to whoever listened before. */
export function watchSignals(): SignalWatch {
  const { promise, resolve } = Promise.withResolvers<EndingSignal>();
  const handling = handleSignals((name) => {
    handling[Symbol.dispose]();
    resolve(name);
  });
  return { signal: promise, [Symbol.dispose]: () => handling[Symbol.dispose]() };
}
