import { EventLog } from "../../ca/issuance/event-log.ts";
import { UpstreamError } from "../../ca/upstream-authority.ts";
import { ConfigurationError, OperatorError } from "../../foundation/errors.ts";
import type { OperationalEvent } from "../../foundation/events.ts";
import { pause } from "../../foundation/pause.ts";
import { errorCode } from "../../program/files/small-file.ts";
import { exitCodes } from "./command-line.ts";
import { Signals } from "./signals.ts";
import type { Terminal } from "./terminal.ts";

/** Runs work, and rethrows its configuration, upstream and system errors as OperatorErrors; others stay as they are. */
export async function orOperatorError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigurationError) {
      throw new OperatorError(error.faults.join("\n         "));
    }
    if (error instanceof UpstreamError) throw new OperatorError(error.message);
    if (errorCode(error)) throw new OperatorError(systemSentence(error), { cause: error });
    throw error;
  }
}

/** The system's error codes in words, for an operator who named the file. */
const systemReasons: Readonly<Record<string, string>> = {
  EACCES: "this user may not use it",
  EPERM: "this user may not use it",
  EEXIST: "it exists already",
  EISDIR: "it is a folder",
  ENOENT: "it does not exist",
  ENOSPC: "the disk is full",
  ENOTDIR: "a file is in the place of a folder",
  EROFS: "the file system is read-only",
};

/** Formats a system's error as a sentence, with the path that it is about. */
function systemSentence(error: unknown): string {
  const reason = systemReasons[errorCode(error) ?? ""];
  const path = error instanceof Error && "path" in error ? String(error.path) : undefined;
  if (reason !== undefined && path !== undefined) return `${path}: ${reason}`;
  return error instanceof Error ? error.message : "the system failed";
}

/** The failures in a thrown value, the earliest first: a SuppressedError has two, and Node prints neither. */
export function failuresOf(thrown: unknown): readonly unknown[] {
  return thrown instanceof SuppressedError
    ? [...failuresOf(thrown.suppressed), ...failuresOf(thrown.error)]
    : [thrown];
}

/**
 * Repeats work until a signal arrives, with a pause of `everySeconds` after each round. An OperatorError is printed,
 * and the next round follows.
 * @throws The error of a round if its exit code is `broken`, or it is no OperatorError.
 */
export async function repeatedly(
  terminal: Terminal,
  everySeconds: number,
  work: (ending: AbortSignal) => Promise<unknown>,
): Promise<void> {
  using signals = Signals.watch();
  const ending = new AbortController();
  void signals.signal.then(() => ending.abort());
  while (!ending.signal.aborted) {
    await work(ending.signal).catch((error: unknown) => {
      if (!(error instanceof OperatorError) || error.exitCode === exitCodes.broken) throw error;
      terminal.complain(error.message);
    });
    await pause(1000 * everySeconds, ending.signal);
  }
}

/**
 * Ends the process with `failed` if its answer cannot be written: otherwise half a KEK on a full disk would be a
 * success. If the reader has closed the pipe (EPIPE), it ends silently. Errors of the standard error stream are
 * ignored.
 */
export function endingWithOutput({ stdout, stderr }: NodeJS.Process): void {
  stdout.on("error", (error) => {
    if (errorCode(error) === "EPIPE") process.exit();
    stderr.write(`rampart: the standard output cannot be written: ${error.message}\n`);
    process.exit(exitCodes.failed);
  });
  stderr.on("error", () => {});
}

/**
 * Ends the process on SIGINT or SIGTERM after a notice, until it is disposed of. The exit code is the one that a shell
 * gives to a program that the signal has ended.
 */
export function explainingSignals(terminal: Terminal, consequence?: string): Disposable {
  const watch = Signals.watch();
  void watch.signal.then((name) => {
    const interrupted = `rampart: interrupted by ${name}`;
    terminal.notice(consequence === undefined ? interrupted : `${interrupted}: ${consequence}`);
    process.exit(Signals.exitCodeOf(name));
  });
  return watch;
}

/**
 * Makes a log on the standard error stream: operations in sentences on a terminal, everything else in lines of JSON.
 * It drops `kek-unavailable`, because the verb's own error says the same.
 */
export function logOf(terminal: Terminal): EventLog {
  const log = EventLog.create(terminal.clock, (line) => terminal.notice(line));
  const operation: EventLog["operation"] = (event) => {
    // The verb itself says why it has no KEK.
    if (event.event === "kek-unavailable") return;
    if (terminal.isWatched) terminal.complain(sentenceOf(event));
    else log.operation(event);
  };
  return { ...log, operation };
}

/** Formats an event as a sentence: what has happened, and in brackets to what. */
function sentenceOf({ event, level, detail = event, ...fields }: OperationalEvent): string {
  const named = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  return named.length === 0 ? detail : `${detail} (${named.join(", ")})`;
}

/**
 * Drops all operations but errors from a log: in a dry run they did not happen, and a person sees them in the answer.
 */
export function errorsOf(log: EventLog): EventLog {
  return {
    ...log,
    operation: (event) => {
      if (event.level === "error") log.operation(event);
    },
  };
}
