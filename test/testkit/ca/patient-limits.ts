import { hangMilliseconds } from "../time/hang-limit.ts";

const timeout = `${hangMilliseconds / 1000}s`;

/**
 * `LIMITS` of a server in a test's own process. Its memory is mostly that of other tests, and a slow machine
 * may stop it for seconds.
 */
export const patientLimits: Readonly<Record<string, unknown>> = {
  handshake_timeout: timeout,
  progress_timeout: timeout,
  memory: 1_000_000,
};
