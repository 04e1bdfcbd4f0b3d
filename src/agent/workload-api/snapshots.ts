import type { Subscribers } from "../secrets/subscribers.ts";

/**
 * Yields the current state, and the new state after each change, until the signal aborts. Changes that
 * come while the reader is busy count as one. A state that equals the last one is skipped.
 */
export async function* snapshots<T>(
  changes: readonly Subscribers[],
  take: () => Promise<T>,
  isSame: (a: T, b: T) => boolean,
  signal: AbortSignal,
): AsyncGenerator<T> {
  let isChanged = true;
  let wake: () => void = () => undefined;
  const onChange = (): void => {
    isChanged = true;
    wake();
  };
  const unsubscribe = changes.map((change) => change.add(onChange));
  signal.addEventListener("abort", onChange);
  let last: { readonly state: T } | undefined;
  try {
    while (!signal.aborted) {
      if (isChanged) {
        isChanged = false;
        const state = await take();
        if (last === undefined || !isSame(last.state, state)) {
          last = { state };
          yield state;
        }
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    signal.removeEventListener("abort", onChange);
    for (const end of unsubscribe) end();
  }
}
