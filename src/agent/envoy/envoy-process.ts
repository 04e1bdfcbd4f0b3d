import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { Backoff } from "../../foundation/backoff.ts";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { type Pause, pause as systemPause } from "../../foundation/pause.ts";
import type { DrainPolicy } from "../configuration.ts";
import type { EnvoyAdmin } from "./envoy-admin.ts";

/** The proxy beside an agent, as the agent's status server sees and steers it. */
export interface ProxyControl {
  /** Why the proxy does not serve: one sentence for each reason. Never rejects. */
  faults(): Promise<readonly string[]>;
  /** The proxy's metrics in Prometheus' text format, empty if it gives none. Never rejects. */
  metrics(): Promise<string>;
  /** Asks peers to close their connections; {@link faults} says so from then on. Rejects if Envoy does not answer. */
  drain(): Promise<void>;
  /** Ends the proxy, and the agent with it, at once and without a drain. */
  quit(): void;
}

interface RestartBudget {
  /** The most restarts in a row. A run of a minute resets the count. */
  readonly maximum: number;
  /** The wait before the first restart. It doubles with each. */
  readonly firstWaitMilliseconds: number;
}

/** The restarts of Envoy in former versions of pilot-agent; newer ones restart nothing. */
export const usualRestarts: RestartBudget = { maximum: 10, firstWaitMilliseconds: 200 };

interface SupervisedProgram {
  readonly command: string;
  readonly arguments: readonly string[];
  /** Envoy's admin interface; `undefined` for a program without one, which is not drained and counts as ready. */
  readonly admin: EnvoyAdmin | undefined;
  readonly drain: DrainPolicy;
  readonly restarts: RestartBudget;
  readonly log: OperationLog;
}

const stableRunMilliseconds = 60_000;
const killAfterMilliseconds = 10_000;

const commandNotFound = 127;

/**
 * Runs Envoy, restarts it when it crashes, and drains it before ending it. A restarted Envoy gets its certificates by
 * SDS.
 */
export class EnvoyProcess implements ProxyControl {
  readonly #program: SupervisedProgram;
  #child: ChildProcess | undefined;
  #isEnding = false;
  #isDrained = false;
  readonly #ending = new AbortController();

  constructor(program: SupervisedProgram) {
    this.#program = program;
  }

  /** Runs until the program succeeds, is ended, is not found, or has used up its restarts. @returns Its exit code. */
  async run(): Promise<number> {
    const { maximum, firstWaitMilliseconds: firstMilliseconds } = this.#program.restarts;
    const backoff = { ...Backoff.usual.outage, firstMilliseconds };
    for (let restarts = 0; ; restarts++) {
      const startedAt = performance.now();
      const code = await this.#runOnce();
      if (this.#isEnding || code === 0 || code === commandNotFound) return code;
      if (performance.now() - startedAt > stableRunMilliseconds) restarts = 0;
      if (restarts >= maximum) return code;
      const wait = Backoff.milliseconds(backoff, restarts + 1);
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

  /** Drains and signals the program, and does not await its exit. A second call cuts the drain short, a third kills. */
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

  async faults(): Promise<readonly string[]> {
    const { admin } = this.#program;
    if (this.#isEnding || this.#isDrained) return ["the proxy drains"];
    if (this.#child?.exitCode !== null) return ["the proxy does not run"];
    return (await admin?.faults().catch(() => ["Envoy's admin interface does not answer"])) ?? [];
  }

  async metrics(): Promise<string> {
    return (await this.#program.admin?.metrics().catch(() => "")) ?? "";
  }

  async drain(): Promise<void> {
    this.#isDrained = true;
    await this.#program.admin?.drain(false);
    this.#program.log.operation({ event: "proxy-draining", level: "info", policy: "requested" });
  }

  quit(): void {
    this.#isDrained = true;
    void this.end();
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
    const { admin, drain: policy, log } = this.#program;
    // Nothing is left to drain after `/drain`: the proxy has only waited for the workload to end. `/quitquitquit` ends it
    // without a drain.
    if (admin === undefined || this.#isDrained || this.#child?.exitCode !== null) return;
    const gone = new AbortController();
    this.#child.once("exit", () => gone.abort());
    const signal = AbortSignal.any([this.#ending.signal, gone.signal]);
    try {
      await drainConnections({ admin, policy, log }, signal);
    } catch (error) {
      log.operation({ event: "proxy-undrained", level: "warning", detail: messageOf(error) });
    }
  }
}

interface DrainOptions {
  readonly admin: EnvoyAdmin;
  readonly policy: DrainPolicy;
  readonly log: OperationLog;
  readonly pause?: Pause;
}

const pauseMilliseconds = 1_000;

/** How many reads of the connections in a row may fail before the drain ends. */
const maximumFailures = 5;

/**
 * Tells all connections to close, and waits as the policy says, or until the signal aborts.
 *
 * @throws Error if Envoy cannot be told to drain. Later failures end the wait.
 */
export async function drainConnections(
  { admin, policy, log, pause = systemPause }: DrainOptions,
  signal: AbortSignal,
): Promise<void> {
  await admin.drain(true, signal);
  const milliseconds = policy.kind === "fixed" ? policy.milliseconds : policy.minimumMilliseconds;
  log.operation({ event: "proxy-draining", level: "info", policy: policy.kind, milliseconds });
  await pause(milliseconds, signal);
  if (policy.kind === "fixed") return;
  for (let failures = 0; failures < maximumFailures && !signal.aborted; ) {
    try {
      if (!(await admin.activeConnections())) return;
      failures = 0;
    } catch (error) {
      failures++;
      log.operation({ event: "connections-uncounted", level: "warning", detail: messageOf(error) });
    }
    await pause(pauseMilliseconds, signal);
  }
}
