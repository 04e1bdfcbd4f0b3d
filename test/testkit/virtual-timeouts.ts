/** Time-outs that pass when a test says so. */
export interface VirtualTimeouts {
  readonly timeout: (milliseconds: number) => AbortSignal;
  readonly pass: (seconds: number) => void;
}

export function createVirtualTimeouts(): VirtualTimeouts {
  const pending = new Set<{ readonly at: number; readonly controller: AbortController }>();
  let now = 0;
  return {
    timeout: (milliseconds) => {
      const controller = new AbortController();
      pending.add({ at: now + milliseconds, controller });
      return controller.signal;
    },
    pass: (seconds) => {
      now += 1000 * seconds;
      for (const each of pending) {
        if (each.at > now) continue;
        pending.delete(each);
        each.controller.abort(new DOMException("The virtual time is up.", "TimeoutError"));
      }
    },
  };
}
