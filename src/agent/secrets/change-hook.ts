import { type ChildProcess, spawn } from "node:child_process";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { CoalescedWork } from "../../program/coalesced-work.ts";

/** Enough for the reload of a server, which takes seconds. */
const usualLimitSeconds = 60;

/** The time between SIGTERM and SIGKILL. */
const killAfterMilliseconds = 2_000;

/**
 * Runs the operator's command after each change of the files (`RAMPART_ON_CHANGE`), one run at a time and without
 * blocking the agent. After changes during a run, it runs once more. Its process group is ended after the time limit,
 * and with the agent.
 */
export class ChangeHook {
  readonly #command: string;
  readonly #log: OperationLog;
  readonly #limitSeconds: number;
  #child: ChildProcess | undefined;
  readonly #runs = new CoalescedWork(() => this.#run());
  #isClosed = false;
  #fault: string | undefined;

  constructor(command: string, log: OperationLog, limitSeconds: number = usualLimitSeconds) {
    this.#command = command;
    this.#log = log;
    this.#limitSeconds = limitSeconds;
  }

  /** Why the command's last run failed: what it should have reloaded may still use old files. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Starts the command, or, if it is running, starts it once more afterwards. */
  run(): void {
    if (!this.#isClosed) void this.#runs.run();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end();
    await this.#runs.underWay;
  }

  async #run(): Promise<void> {
    if (this.#isClosed) return;
    const failure = await this.#runOnce();
    if (this.#isClosed) return;
    this.#fault = failure && `RAMPART_ON_CHANGE ${failure}`;
    if (failure === undefined) this.#log.operation({ event: "on-change-run", level: "info" });
    else this.#log.operation({ event: "on-change-failed", level: "error", detail: failure });
  }

  async #runOnce(): Promise<string | undefined> {
    // A process group of its own, so that all its members can be ended together.
    const child = spawn("sh", ["-c", this.#command], {
      stdio: ["ignore", "inherit", "inherit"],
      detached: true,
    });
    this.#child = child;
    let isLate = false;
    const limit = setTimeout(() => {
      isLate = true;
      this.#end();
    }, 1000 * this.#limitSeconds);
    const result = await new Promise<string | undefined>((resolve) => {
      child.on("error", (error) => resolve(messageOf(error)));
      child.on("exit", (code, signal) =>
        resolve(code === 0 ? undefined : `ended with ${code ?? signal}`),
      );
    });
    clearTimeout(limit);
    this.#child = undefined;
    return isLate ? `did not end within ${this.#limitSeconds} s` : result;
  }

  #end(): void {
    const child = this.#child;
    if (child?.pid === undefined) return;
    const kill = (): void => signalGroup(child.pid, "SIGKILL");
    signalGroup(child.pid, "SIGTERM");
    const killing = setTimeout(kill, killAfterMilliseconds);
    child.once("exit", () => {
      clearTimeout(killing);
      // What the shell has started may ignore SIGTERM, and would outlive the agent.
      kill();
    });
  }
}

function signalGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (leader !== undefined) process.kill(-leader, signal);
  } catch {
    // The group has ended already.
  }
}
