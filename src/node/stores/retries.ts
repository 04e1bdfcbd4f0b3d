import { Backoff, retry } from "../../foundation/backoff.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { Pause } from "../../foundation/pause.ts";
import type { ObjectSpace } from "./object-space.ts";

/** No attempt is made after a failure later than this, because requests wait for a load of the store. */
const lastAttemptMilliseconds = 4000;

/** The statuses of a service that is busy, restarting or did not answer. */
const passing: readonly (number | undefined)[] = [undefined, 408, 429, 500, 502, 503, 504];

/** Repeats an act after transient failures. @throws FetchError, which names the service. */
type Retries = <T>(act: () => Promise<T>) => Promise<T>;

/** What differs from the retries of an API server. */
interface RetryOptions {
  readonly pause?: Pause | undefined;
  /** Another status that is transient. */
  readonly alsoPassing?: number;
  readonly attempts?: number;
}

/**
 * Creates the function that repeats a request after a passing failure, with growing pauses, for a bounded time.
 * @param service The service's name in sentences, such as `the API server https://10.0.0.1`.
 */
export function createRetries(
  service: string,
  { pause, alsoPassing, attempts = Backoff.callAttempts }: RetryOptions = {},
): Retries {
  const mayPass = ({ status }: FetchError): boolean =>
    passing.includes(status) || status === alsoPassing;
  return (act) => {
    const begun = performance.now();
    const isLate = (): boolean => performance.now() - begun >= lastAttemptMilliseconds;
    const retryAfter = (error: unknown): number | undefined => {
      if (!(error instanceof FetchError) || !mayPass(error) || isLate()) return undefined;
      const { retryAfterSeconds = 0 } = error;
      return 1000 * retryAfterSeconds > lastAttemptMilliseconds ? undefined : retryAfterSeconds;
    };
    const { random } = Math;
    const attempting = retry(act, {
      backoff: Backoff.usual.call,
      attempts,
      retryAfter,
      random,
      pause,
    });
    return attempting.catch((error: unknown) => {
      throw error instanceof FetchError ? named(service, error) : error;
    });
  };
}

/**
 * An object space that repeats operations after a transient failure of its service. Every act may be repeated: a
 * repeated write that has already happened is a conflict, after which its writer reads the object.
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

/** Adds the name of the service to an error, which becomes the `cause`. Of its fields, `status` is kept. */
export const named = (service: string, error: FetchError): FetchError =>
  new FetchError(`${service} ${error.message}`, {
    cause: error,
    ...(error.status !== undefined && { status: error.status }),
  });
