import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { backoffMilliseconds } from "../../foundation/work/backoff.ts";
import { fetchTrusting } from "../../host/http/node-fetch.ts";

/** How often a crashed program is restarted. */
export interface RestartBudget {
  /** Restarts in a row. A run of a minute resets the count. */
  readonly maximum: number;
  /** The wait before the first restart. It doubles with each. */
  readonly firstWaitMilliseconds: number;
}

/** The budget of pilot-agent, from the time when it restarted Envoy. */
export const usualRestarts: RestartBudget = { maximum: 10, firstWaitMilliseconds: 200 };

/** A program, and the settings by which it is supervised. */
export interface SupervisedProgram {
  readonly command: string;
  readonly arguments: readonly string[];
  /** Envoy's admin interface for the drain, or `undefined` for no drain. */
  readonly adminUrl: string | undefined;
  /** How long that interface has to answer; a default holds without it. */
  readonly adminTimeoutMilliseconds?: number;
  /** How long connections have to end by themselves. */
  readonly drainMilliseconds: number;
  readonly restarts: RestartBudget;
  readonly log: OperationLog;
}

const longestWaitMilliseconds = 30_000;
const stableRunMilliseconds = 60_000;
const killAfterMilliseconds = 10_000;
const usualAdminTimeoutMilliseconds = 2_000;

const askAdmin = fetchTrusting(undefined);

/** A shell's exit code for a missing command. */
const commandNotFound = 127;

/**
 * Runs Envoy, restarts it when it crashes, and drains it before it ends it. A restarted Envoy gets its
 * certificates by SDS.
 */
export class EnvoyProcess {
  readonly #program: SupervisedProgram;
  #child: ChildProcess | undefined;
  #isEnding = false;
  readonly #ending = new AbortController();

  constructor(program: SupervisedProgram) {
    this.#program = program;
  }

  /** Runs until the program succeeds, is ended, or has used up its restarts. @returns Its exit code. */
  async run(): Promise<number> {
    const { maximum, firstWaitMilliseconds: firstMilliseconds } = this.#program.restarts;
    const backoff = { firstMilliseconds, longestMilliseconds: longestWaitMilliseconds };
    for (let restarts = 0; ; restarts++) {
      const startedAt = performance.now();
      const code = await this.#runOnce();
      if (this.#isEnding || code === 0 || code === commandNotFound) return code;
      if (performance.now() - startedAt > stableRunMilliseconds) restarts = 0;
      if (restarts >= maximum) return code;
      const wait = backoffMilliseconds(backoff, restarts + 1);
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

  /** Drains and ends the program. A second call cuts the drain short, and a third kills the program. */
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

  /** Forwards a signal. Envoy reopens its logs at SIGUSR1. */
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
        const exitCode = code ?? 128 + (signal ? constants.signals[signal] : 0);
        const level = exitCode === 0 ? "info" : "warning";
        log.operation({ event: "proxy-exited", level, code: exitCode });
        resolve(exitCode);
      });
    });
  }

  async #drain(): Promise<void> {
    const { adminUrl, adminTimeoutMilliseconds, drainMilliseconds, log } = this.#program;
    if (adminUrl === undefined || this.#child?.exitCode !== null) return;
    try {
      const url = `${adminUrl}/drain_listeners?graceful`;
      const timeout = AbortSignal.timeout(
        adminTimeoutMilliseconds ?? usualAdminTimeoutMilliseconds,
      );
      const signal = AbortSignal.any([this.#ending.signal, timeout]);
      const answer = await askAdmin(url, { method: "POST", signal });
      await answer.body?.cancel();
      log.operation({ event: "proxy-draining", level: "info", milliseconds: drainMilliseconds });
      await sleep(drainMilliseconds, undefined, { signal: this.#ending.signal });
    } catch (error) {
      log.operation({ event: "proxy-undrained", level: "warning", detail: messageOf(error) });
    }
  }
}
