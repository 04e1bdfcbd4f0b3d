import type { Subscribers } from "../secrets/subscribers.ts";

/**
 * The state of something, now and after each change, for as long as somebody reads. Changes that come
 * while a state is being taken or read become one; a state that is as it was is left out.
 *
 * @param isSame Whether two states tell the reader the same.
 */
export async function* snapshots<T>(
  changes: readonly Subscribers[],
  take: () => Promise<T>,
  isSame: (a: T, b: T) => boolean,
  signal: AbortSignal,
): AsyncGenerator<T> {
  let isChanged = true;
  let wake: () => void = () => undefined;
  const ring = (): void => {
    isChanged = true;
    wake();
  };
  const unsubscribe = changes.map((change) => change.add(ring));
  signal.addEventListener("abort", ring);
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
    signal.removeEventListener("abort", ring);
    for (const end of unsubscribe) end();
  }
}
