import type { ObjectSpace } from "../../custody/shared/object-space.ts";
import { FetchError } from "../../foundation/fetch.ts";
import {
  type Backoff,
  backoffMilliseconds,
  type Pause,
  pause as systemPause,
} from "../../foundation/pause.ts";

/** A request waits as long as a load of the store may take, so the attempts take less together. */
const lastAttemptMilliseconds = 4000;
const maximumAttempts = 4;

const backoff: Backoff = {
  firstMilliseconds: 200,
  longestMilliseconds: 1000,
  spread: [0.5, 1],
};

/** Busy, broken for a moment, or restarting. */
const passing: readonly (number | undefined)[] = [undefined, 408, 429, 500, 502, 503, 504];

/** Repeats an act that a service fails for a moment. @throws FetchError, which names the service. */
type Retries = <T>(act: () => Promise<T>) => Promise<T>;

/** How a service fails for a moment, where it differs from an API server. */
interface RetryOptions {
  readonly pause?: Pause | undefined;
  /** Another status that passes. */
  readonly alsoPassing?: number;
  readonly attempts?: number;
}

/** @param service The service's name in sentences, such as `the API server https://10.0.0.1`. */
export function createRetries(
  service: string,
  { pause = systemPause, alsoPassing, attempts = maximumAttempts }: RetryOptions = {},
): Retries {
  const mayPass = ({ status }: FetchError): boolean =>
    passing.includes(status) || status === alsoPassing;
  return async (act) => {
    const late = AbortSignal.timeout(lastAttemptMilliseconds);
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof FetchError)) throw error;
        const isFinal = !mayPass(error) || failures === attempts;
        if (isFinal || late.aborted) throw named(service, error);
        const asked = 1000 * (error.retryAfterSeconds ?? 0);
        if (asked > lastAttemptMilliseconds) throw named(service, error);
        await pause(Math.max(asked, backoffMilliseconds(backoff, failures, Math.random())));
      }
    }
  };
}

/**
 * A space that repeats what its service fails for a moment. Every act may be repeated: a write that has
 * happened already is not confirmed, and its writer reads what is there.
 */
export function withRetries(space: ObjectSpace, service: string, pause?: Pause): ObjectSpace {
  const attempt = createRetries(service, { pause });
  return {
    list: (freshness) => attempt(() => space.list(freshness)),
    read: (key) => attempt(() => space.read(key)),
    write: (...object) => attempt(() => space.write(...object)),
    remove: (key) => attempt(() => space.remove(key)),
  };
}

/** A fault of a service with its name; its cause is the fault without. */
export const named = (service: string, error: FetchError): FetchError =>
  new FetchError(`${service} ${error.message}`, {
    cause: error,
    ...(error.status !== undefined && { status: error.status }),
  });
