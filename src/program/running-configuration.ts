import { stat } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { ConfigurationError, messageOf } from "../foundation/errors.ts";
import type { OperationalEvent, OperationLog } from "../foundation/events.ts";
import { InterruptibleSleep } from "../foundation/interruptible-sleep.ts";
import type { Pause } from "../foundation/pause.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import { errorCode } from "./files/small-file.ts";
import { type ConfigurationStatus, restartSentence } from "./internal/configuration-status.ts";

/**
 * How a program reads the file of its configuration, notices a change, and parses the values. A change of `restartKeys`
 * takes a restart.
 */
export interface ConfigurationSource<C> {
  /** @throws ConfigurationError */
  readonly read: () => Promise<Values>;
  /** A text that differs whenever the file's content does, such as {@link fileState}. Never rejects. */
  readonly state: () => Promise<string>;
  /** @throws ConfigurationError */
  readonly parse: (values: Values) => C;
  readonly restartKeys: readonly string[];
}

/**
 * Applies a configuration, or rejects and changes nothing.
 *
 * @returns Keys whose change is applied only in part until a restart.
 */
export type Reconfigure<C> = (next: C) => Promise<readonly string[]>;

interface Context {
  readonly log: OperationLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

const pollSeconds = 1;

/** After so many looks a refused file is tried again, because a file that it names may exist by then. */
const looksBetweenRetries = 10;

/**
 * The configuration of a program while it runs. It reads the file again when the file changes and when
 * {@link RunningConfiguration.ask} is called, never twice at the same time. A file with a fault changes nothing. A pipe
 * is never read again.
 */
export class RunningConfiguration<C> {
  readonly #source: ConfigurationSource<C>;
  readonly #context: Context;
  readonly #atStart: Values;
  #inForce: Values;
  #status: ConfigurationStatus;
  /** Keys whose change is applied only in part until a restart. */
  #inPart: readonly string[] = [];
  #isAsked = false;
  readonly #sleep: InterruptibleSleep;

  private constructor(source: ConfigurationSource<C>, context: Context, values: Values) {
    this.#source = source;
    this.#context = context;
    this.#atStart = values;
    this.#inForce = values;
    this.#sleep = new InterruptibleSleep(context.clock, context.pause);
    this.#status = {
      generation: 1,
      lastSuccess: context.clock(),
      reloads: { applied: 0, refused: 0 },
      faults: [],
      awaitingRestart: [],
    };
  }

  /** Reads a configuration for the first time. @throws ConfigurationError */
  static async open<C>(
    source: ConfigurationSource<C>,
    context: Context,
  ): Promise<{ readonly first: C; readonly running: RunningConfiguration<C> }> {
    const values = await source.read();
    const first = source.parse(values);
    return { first, running: new RunningConfiguration(source, context, values) };
  }

  readonly status = (): ConfigurationStatus => this.#status;

  /** Reads the file again, even if it has not changed: at once, or after the reload that is under way. */
  readonly ask = (): void => {
    this.#isAsked = true;
    this.#sleep.interrupt();
  };

  /** Follows the file until the signal aborts, and resolves once no reload is under way. */
  async follow(reconfigure: Reconfigure<C>, signal: AbortSignal): Promise<void> {
    const hasChanged = this.#watch();
    while (!signal.aborted) {
      await this.#sleep.until(addSeconds(this.#context.clock(), pollSeconds), signal);
      if (signal.aborted) return;
      const isAsked = this.#isAsked;
      this.#isAsked = false;
      if (isAsked || (await hasChanged())) await this.#reload(reconfigure, isAsked);
    }
  }

  /**
   * Creates a function that says whether the file differs from what was read last, and was the same at the last two
   * looks: an editor may write a file in several steps, and half a list of clusters may be a correct file.
   */
  #watch(): () => Promise<boolean> {
    let seen: string | undefined;
    let read: string | undefined;
    let looks = 0;
    return async () => {
      const state = await this.#source.state();
      const isSettled = state === seen;
      seen = state;
      const isRetry = this.#status.faults.length > 0 && ++looks >= looksBetweenRetries;
      if (!isSettled || state === pipeState || (state === read && !isRetry)) return false;
      read = state;
      looks = 0;
      return true;
    };
  }

  async #reload(reconfigure: Reconfigure<C>, isAsked: boolean): Promise<void> {
    const before = await this.#source.state();
    if (before === pipeState) {
      return this.#log("configuration-refused", "warning", "a pipe is read at the start alone");
    }
    try {
      const written = await this.#source.read();
      // A file that changed meanwhile may have been half written. The next look finds its new state.
      if (!isAsked && (await this.#source.state()) !== before) return;
      await this.#take(written, reconfigure, isAsked);
    } catch (error) {
      this.#refuse(error instanceof ConfigurationError ? error.faults : [messageOf(error)]);
    }
  }

  /** Applies values that need no restart. @throws ConfigurationError, or what `reconfigure` rejects with. */
  async #take(written: Values, reconfigure: Reconfigure<C>, isAsked: boolean): Promise<void> {
    const { parse, restartKeys } = this.#source;
    parse(written);
    const { values, awaitingRestart } = applicableValues(written, this.#atStart, restartKeys);
    const changed = changedKeys(this.#inForce, values);
    const isApplied = changed.length > 0 || isAsked;
    if (isApplied) {
      this.#inPart = await reconfigure(this.#parseApplicable(values, awaitingRestart));
      this.#inForce = values;
    }
    const { generation, reloads, faults, awaitingRestart: awaited } = this.#status;
    const awaiting = [...new Set([...awaitingRestart, ...this.#inPart])].toSorted();
    this.#status = {
      generation: generation + (changed.length > 0 ? 1 : 0),
      lastSuccess: this.#context.clock(),
      reloads: { ...reloads, applied: reloads.applied + (isApplied ? 1 : 0) },
      faults: [],
      awaitingRestart: awaiting,
    };
    if (isApplied || faults.length > 0) this.#logReload(changed);
    if (awaiting.length > 0 && awaiting.join() !== awaited.join()) {
      this.#log("configuration-needs-restart", "warning", restartSentence(awaiting));
    }
  }

  /**
   * Parses the values to apply: those of the file, except that keys that need a restart keep the values of the start.
   *
   * @throws ConfigurationError that names these keys: this mixture may be invalid although the file is valid.
   */
  #parseApplicable(values: Values, awaitingRestart: readonly string[]): C {
    try {
      return this.#source.parse(values);
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      const kept = `until a restart with the former ${awaitingRestart.join(", ")}`;
      throw new ConfigurationError(error.faults.map((fault) => `${fault} (${kept})`));
    }
  }

  /** Logs faults unless the last attempt had the same. */
  #refuse(faults: readonly string[]): void {
    const { reloads, faults: before, ...status } = this.#status;
    const isNew = faults.join() !== before.join();
    const refused = reloads.refused + (isNew ? 1 : 0);
    this.#status = { ...status, faults, reloads: { ...reloads, refused } };
    if (!isNew) return;
    for (const fault of faults) this.#log("configuration-refused", "error", fault);
  }

  #logReload(changed: readonly string[]): void {
    const which =
      changed.length > 0
        ? `with other values of ${changed.join(", ")}`
        : "and has the values that are in force";
    this.#log("configuration-reloaded", "info", `the configuration was read again, ${which}`);
  }

  #log(
    event: OperationalEvent["event"],
    level: "info" | "warning" | "error",
    detail: string,
  ): void {
    const { generation } = this.#status;
    this.#context.log.operation({ event, level, detail, generation });
  }
}

/** The keys and values of a configuration, unchecked. */
export type Values = Readonly<Record<string, unknown>>;

/**
 * Replaces the values of the keys that need a restart by those of the start. The others apply, so that a changed port
 * does not keep a removed cluster in force. `awaitingRestart` has the replaced keys whose values differ.
 */
function applicableValues(
  written: Values,
  atStart: Values,
  restartKeys: readonly string[],
): { readonly values: Values; readonly awaitingRestart: readonly string[] } {
  const values: Record<string, unknown> = { ...written };
  for (const key of restartKeys) {
    if (key in atStart) values[key] = atStart[key];
    else delete values[key];
  }
  return { values, awaitingRestart: changedKeys(values, written) };
}

/** The keys whose values differ, in alphabetical order. */
function changedKeys(before: Values, after: Values): readonly string[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].filter((key) => !isDeepStrictEqual(before[key], after[key])).toSorted();
}

/** The state of a pipe, which can be read only once. */
export const pipeState = "a pipe";

/**
 * A text that changes with a file's content, found without reading it. It also changes if the file is replaced by
 * rename, or a link to it by another, as in a mounted ConfigMap. A pipe always has the same state. It never rejects: an
 * error's code is a state too.
 */
export async function fileState(path: string): Promise<string> {
  try {
    const found = await stat(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    return found.isFIFO() ? pipeState : [dev, ino, size, mtimeNs, ctimeNs].join(" ");
  } catch (error) {
    return errorCode(error) ?? "unreadable";
  }
}
