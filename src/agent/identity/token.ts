import { type ExecFileException, execFile } from "node:child_process";
import { OperatorError } from "../../foundation/errors.ts";
import { Fetching, toFetchError } from "../../foundation/fetch.ts";
import { bearerToken } from "../../foundation/headers.ts";
import { TokenEndpoint } from "../../foundation/token-endpoint.ts";
import { TokenFile } from "../../program/files/small-file.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import type { ObtainToken, TokenSource } from "../configuration/token-source.ts";

/** The most that a command may print. */
const maximumOctets = 32_768;

/**
 * Gets a token from its source. Each call asks anew and shares no token with another call, because a CA may accept a
 * token only once.
 *
 * @returns `undefined` for a missing or empty file.
 * @throws OperatorError with one sentence that quotes neither the token nor what the source has answered.
 */
export async function readToken(
  source: TokenSource,
  signal: AbortSignal,
  timeoutMilliseconds: number = Fetching.usualTimeoutMilliseconds,
): Promise<string | undefined> {
  if (source.kind === "file") return TokenFile.readIfAny(source.path);
  if (source.kind === "command") return runCommand(source.argv, signal, timeoutMilliseconds);
  if (source.kind === "function") return await obtained(source.obtain, signal, timeoutMilliseconds);
  const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMilliseconds)]);
  return await TokenEndpoint.ask(source, fetch, within);
}

/** Gets a token from a function, and stops waiting after the timeout even if the function ignores its signal. */
async function obtained(
  obtain: ObtainToken,
  signal: AbortSignal,
  timeoutMilliseconds: number,
): Promise<string> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMilliseconds)]);
  const late = Promise.withResolvers<never>();
  within.addEventListener("abort", () => late.reject(within.reason), { once: true });
  try {
    within.throwIfAborted();
    return await Promise.race([obtain(within), late.promise]);
  } catch (error) {
    const { message } =
      error instanceof OperatorError ? error : toFetchError(error, "AWS did not answer");
    throw new OperatorError(`no token: ${message}`);
  }
}

/** Goes through the environment's proxies, except to link-local addresses, such as a cloud's metadata server. */
const fetch = NodeFetch.trusting(undefined);

/** Runs the command and reads what it prints. Its stderr is dropped, because it may contain a secret. */
function runCommand(
  [program = "", ...args]: readonly string[],
  signal: AbortSignal,
  timeout: number,
): Promise<string> {
  const options = { signal, timeout, maxBuffer: maximumOctets, killSignal: "SIGKILL" } as const;
  return new Promise((resolve, reject) => {
    execFile(program, args, options, (error, stdout) => {
      const token = stdout.trim();
      if (error === null && bearerToken.test(token)) return resolve(token);
      const fault = error === null ? "printed no token" : faultOf(error, timeout);
      // Node's error is left out, because its message has the arguments and stderr.
      reject(new OperatorError(`no token: the command ${program} ${fault}`));
    });
  });
}

function faultOf(error: ExecFileException, timeout: number): string {
  const { code } = error;
  if (code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER")
    return `printed more than ${maximumOctets} octets`;
  if (error.name === "AbortError") return "was stopped with the call";
  if (error.killed) return `did not end within ${timeout / 1000} s`;
  return typeof code === "string" ? `cannot be run: ${code}` : `failed with ${code ?? "a signal"}`;
}
