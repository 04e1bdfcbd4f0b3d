import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import type { Subscribers } from "../../foundation/subscribers.ts";
import { takeRoom } from "./socket-bounds.ts";

/** SPIFFE Workload Endpoint §3: browsers and proxies cannot be made to send the header. */
export function requireSecurityHeader({ requestHeader }: HandlerContext): void {
  if (requestHeader.get("workload.spiffe.io") === "true") return;
  throw new ConnectError("security header missing from request", Code.InvalidArgument);
}

/**
 * Yields the current state, and the new state after each change, until the call ends. Changes that
 * come while the reader is busy count as one. A state that equals the last one is skipped.
 */
export async function* snapshots<T>(
  changes: readonly Subscribers[],
  take: () => Promise<T>,
  isSame: (a: T, b: T) => boolean,
  { signal, values }: HandlerContext,
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
          const leave = await values.get(takeRoom)();
          yield state;
          leave();
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
