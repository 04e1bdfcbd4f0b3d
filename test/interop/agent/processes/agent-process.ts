import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { AgentStatus } from "../../../../src/agent/agent-status.ts";
import type { Child } from "../../../testkit/programs/child-process.ts";
import { launchRampart } from "../../../testkit/programs/rampart-process.ts";
import { until } from "../../../testkit/time/until.ts";

export type AgentVariables = NodeJS.ProcessEnv & { readonly SERVICE_ACCOUNT: string };

/** An agent as an operator starts it: `rampart agent run`, in a process of its own. */
export class AgentProcess {
  readonly #folder: string;
  readonly #env: AgentVariables;
  readonly #statusUrl: string;
  readonly #workingFolder: string;
  #child: Child | undefined;

  /** @param folder The place of its log. @param workingFolder The base of relative paths. */
  constructor(folder: string, env: AgentVariables, statusPort: number, workingFolder = ".") {
    this.#folder = folder;
    this.#workingFolder = workingFolder;
    this.#env = { ...env, RAMPART_STATUS_ADDR: `127.0.0.1:${statusPort}` };
    this.#statusUrl = `http://127.0.0.1:${statusPort}/status`;
  }

  get #logFile(): string {
    return join(this.#folder, `agent-${this.#env.SERVICE_ACCOUNT}.log`);
  }

  start(...proxy: string[]): void {
    const [logFile, folder] = [this.#logFile, this.#workingFolder];
    const options = { logFile, environment: this.#env, folder };
    this.#child = launchRampart(["agent", "run", ...proxy], options);
  }

  /** @throws Error with the agent's last words, if it ends or is not ready within a minute. */
  async ready(): Promise<void> {
    const child = this.#child;
    const isReady = async () => {
      if (child?.process.exitCode != null) throw new Error("the agent has ended");
      return this.status().then(
        ({ isReady }) => isReady,
        () => false,
      );
    };
    try {
      await until(`the agent at ${this.#statusUrl}`, isReady);
    } catch (error) {
      throw new Error(`${error}; it said: ${child?.lines.slice(-3).join(" / ")}`);
    }
  }

  async status(): Promise<AgentStatus> {
    return (await (await fetch(this.#statusUrl)).json()) as AgentStatus;
  }

  async end(signal?: NodeJS.Signals): Promise<number> {
    return (await this.#child?.end(signal)) ?? -1;
  }

  /** The process id of the last proxy that it started. */
  async proxyId(): Promise<number> {
    const log = await readFile(this.#logFile, "utf8");
    const started = log.split("\n").filter((line) => line.includes('"proxy-started"'));
    return Number(/"pid":(\d+)/.exec(started.at(-1) ?? "")?.[1] ?? 0);
  }
}
