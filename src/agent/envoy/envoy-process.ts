import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { fetchTrusting } from "../../host/node-fetch.ts";

/** How often a program that crashes is started again. */
export interface RestartBudget {
  /** Crashes in a row; a program that ran for a while has earned them back. */
  readonly most: number;
  /** Doubled with each. */
  readonly firstWaitMilliseconds: number;
}

/** What pilot-agent gave Envoy, when it still restarted it. */
export const usualRestarts: RestartBudget = { most: 10, firstWaitMilliseconds: 200 };

/** A program, and how it is kept running and ended. */
export interface SupervisedProgram {
  readonly command: string;
  readonly arguments: readonly string[];
  /** Envoy's admin interface, which is asked to drain; or `undefined`. */
  readonly adminUrl: string | undefined;
  /** How long connections get to end by themselves. */
  readonly drainMilliseconds: number;
  readonly restarts: RestartBudget;
  readonly log: OperationLog;
}

const longestRestartMilliseconds = 30_000;
const goodRunMilliseconds = 60_000;
const killAfterMilliseconds = 10_000;

const askAdmin = fetchTrusting(undefined);

/** What a shell says of a command that it does not find. */
const commandNotFound = 127;

/**
 * Runs a program, restarts it when it crashes, and ends it gently. Envoy's certificates come over a
 * stream, so that a restarted Envoy has them as soon as it asks.
 */
export class EnvoyProcess {
  readonly #program: SupervisedProgram;
  #child: ChildProcess | undefined;
  #isEnding = false;
  readonly #ending = new AbortController();

  constructor(program: SupervisedProgram) {
    this.#program = program;
  }

  /** Runs until the program is done, is ended, or has used up its restarts. @returns Its exit code. */
  async run(): Promise<number> {
    const { most, firstWaitMilliseconds } = this.#program.restarts;
    for (let restarts = 0; ; restarts++) {
      const begin = performance.now();
      const code = await this.#runOnce();
      if (this.#isEnding || code === 0 || code === commandNotFound) return code;
      if (performance.now() - begin > goodRunMilliseconds) restarts = 0;
      if (restarts >= most) return code;
      const wait = Math.min(longestRestartMilliseconds, firstWaitMilliseconds * 2 ** restarts);
      this.#program.log.operation({
        event: "proxy-restarting",
        level: "error",
        code,
        milliseconds: wait,
      });
      await sleep(wait, undefined, { signal: this.#ending.signal }).catch(() => undefined);
      if (this.#isEnding) return code;
    }
  }

  /** Drains and ends it; a second call does not wait for the drain, and a third not at all. */
  async end(): Promise<void> {
    const child = this.#child;
    if (this.#isEnding) {
      child?.kill(this.#ending.signal.aborted ? "SIGKILL" : "SIGTERM");
      this.#ending.abort();
      return;
    }
    this.#isEnding = true;
    await this.#drain();
    this.#ending.abort();
    child?.kill("SIGTERM");
    const killing = setTimeout(() => child?.kill("SIGKILL"), killAfterMilliseconds);
    killing.unref();
    child?.once("exit", () => clearTimeout(killing));
  }

  /** Passes a signal on: Envoy reopens its logs at SIGUSR1. */
  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  #runOnce(): Promise<number> {
    const { command, arguments: values, log } = this.#program;
    return new Promise((resolve) => {
      const child = spawn(command, values, { stdio: "inherit" });
      this.#child = child;
      child.on("spawn", () =>
        log.operation({ event: "proxy-started", level: "info", pid: child.pid }),
      );
      child.on("error", (error) => {
        log.operation({ event: "proxy-unstartable", level: "error", detail: messageOf(error) });
        if (child.pid === undefined) resolve(commandNotFound);
      });
      child.on("exit", (code, signal) => {
        const number = code ?? 128 + (signal ? constants.signals[signal] : 0);
        log.operation({
          event: "proxy-exited",
          level: number === 0 ? "info" : "warning",
          code: number,
        });
        resolve(number);
      });
    });
  }

  async #drain(): Promise<void> {
    const { adminUrl, drainMilliseconds, log } = this.#program;
    if (adminUrl === undefined || this.#child?.exitCode !== null) return;
    try {
      const url = `${adminUrl}/drain_listeners?graceful`;
      const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(2_000)]);
      const answer = await askAdmin(url, { method: "POST", signal });
      await answer.body?.cancel();
      log.operation({ event: "proxy-draining", level: "info", milliseconds: drainMilliseconds });
      await sleep(drainMilliseconds, undefined, { signal: this.#ending.signal });
    } catch (error) {
      log.operation({ event: "proxy-undrained", level: "warning", detail: messageOf(error) });
    }
  }
}
