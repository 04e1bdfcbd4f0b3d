import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

interface LoadResult {
  readonly requests: number;
  readonly failures: readonly string[];
}

const pauseMilliseconds = 20;

/** What a load repeats beside requests to URLs. */
interface NamedCall {
  readonly name: string;
  /** Makes one call. @returns `200`, or what went wrong. */
  readonly call: () => Promise<string>;
}

/** Sends requests to each URL, one after the other, and makes each call so, until it is stopped. */
export class SteadyLoad {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #ending = new AbortController();
  readonly #running: Promise<unknown>;
  #requests = 0;
  #failures: string[] = [];

  constructor(sources: readonly (string | NamedCall)[]) {
    const calls = sources.map((source) =>
      typeof source === "string"
        ? { name: source, call: () => statusOf(source, this.#agent) }
        : source,
    );
    this.#running = Promise.all(calls.map((each) => this.#load(each)));
  }

  take(): LoadResult {
    const result = { requests: this.#requests, failures: this.#failures };
    this.#requests = 0;
    this.#failures = [];
    return result;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    this.#agent.destroy();
  }

  async #load({ name, call }: NamedCall): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const outcome = await call();
      this.#requests++;
      if (outcome !== "200") this.#failures.push(`${new Date().toISOString()} ${name}: ${outcome}`);
      await sleep(pauseMilliseconds);
    }
  }
}

/** The requests since the last look. @throws Error if there were none, or one of them failed. */
export function counted(load: Pick<SteadyLoad, "take">): string {
  const { requests, failures } = load.take();
  const detail = `${requests} requests, ${failures.length} failed`;
  if (requests === 0 || failures.length > 0) throw new Error(`${detail}, first ${failures[0]}`);
  return detail;
}

/** The status, with the body of a failure, or the reason why there is none. */
export function statusOf(url: string, agent?: Agent): Promise<string> {
  return new Promise((resolve) => {
    const request = get(url, { timeout: 5_000, ...(agent && { agent }) }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.on("end", () => {
        const { statusCode = 0 } = response;
        resolve(statusCode === 200 ? "200" : `${statusCode} ${body}`);
      });
      response.on("error", (error) => resolve(error.message));
    });
    request.on("timeout", () => request.destroy(new Error("no answer")));
    request.on("error", (error) => resolve(error.message));
  });
}
