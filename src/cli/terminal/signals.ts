/** The signals that tell a program to end, with their numbers. */
const numbers = { SIGINT: 2, SIGTERM: 15 } as const;

/** A signal that tells a program to end. */
export type EndingSignal = keyof typeof numbers;

const endingSignals: readonly EndingSignal[] = ["SIGINT", "SIGTERM"];

/** The first signal that tells this process to end. A second one ends it at once, as Node does by default. */
export interface SignalWatch extends Disposable {
  readonly signal: Promise<EndingSignal>;
}

export function watchSignals(): SignalWatch {
  const { promise, resolve } = Promise.withResolvers<EndingSignal>();
  const stop = (): void => {
    for (const name of endingSignals) process.off(name, received);
  };
  function received(name: EndingSignal): void {
    stop();
    resolve(name);
  }
  for (const name of endingSignals) process.on(name, received);
  return { signal: promise, [Symbol.dispose]: stop };
}

/**
 * Says a sentence when a signal ends the process, wherever it is. The exit code is the one that a shell
 * gives to a program that the signal has ended.
 */
export function explainingSignals(sentence: string): Disposable {
  const watch = watchSignals();
  void watch.signal.then((name) => {
    console.error(`rampart: interrupted by ${name}: ${sentence}`);
    process.exit(128 + numbers[name]);
  });
  return watch;
}
