import { hangMilliseconds } from "../time/hang-limit.ts";

const secondsOf = (milliseconds: number): string => `${milliseconds / 1000}s`;

/**
 * `LIMITS` of a server in a test's own process. Its memory is mostly that of other tests, and a slow machine
 * may stop it for seconds.
 */
export const patientLimits: Readonly<Record<string, unknown>> = {
  handshake_timeout: secondsOf(hangMilliseconds),
  // A tenth of it passes wherever a test leaves a request unfinished.
  progress_timeout: secondsOf(hangMilliseconds / 5),
  memory: 1_000_000,
};
