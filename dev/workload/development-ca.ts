import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod/mini";
import { JsonText } from "../json-text.ts";

const outcomeForm = z.pipe(JsonText, z.object({ outcome: z.literal("ok") }));

/** `authority` is absent while none can sign. There may be reasons even when one can. */
const readinessForm = z.pipe(
  JsonText,
  z.object({ authority: z.optional(z.string()), reasons: z.array(z.string()) }),
);

type Readiness = z.output<typeof readinessForm>;

/** The probes and the cron of the development CA. */
export class DevelopmentCa {
  readonly url: string;
  readonly #signal: AbortSignal;

  /** @param signal Aborts every request under way. */
  constructor(url: string, signal: AbortSignal) {
    this.url = url;
    this.#signal = signal;
  }

  /** Whether the CA answered before the deadline. */
  async awaitHealth(deadlineSeconds: number): Promise<boolean> {
    const deadline = Date.now() + deadlineSeconds * 1000;
    while (!(await this.#isHealthy())) {
      if (Date.now() > deadline) return false;
      await sleep(100, undefined, { signal: this.#signal });
    }
    return true;
  }

  async #isHealthy(): Promise<boolean> {
    return await this.#fetch("/healthz").then(
      (response) => response.ok,
      () => {
        this.#signal.throwIfAborted();
        return false;
      },
    );
  }

  /** The authority that would sign now, and the reasons that the CA gives. */
  async readiness(): Promise<Readiness> {
    const response = await this.#fetch("/readyz");
    const text = await response.text();
    const body = readinessForm.safeParse(text);
    return body.data ?? { reasons: [`/readyz answered ${response.status}: ${text}`] };
  }

  /**
   * The readiness as soon as an authority signs, or at the deadline. An isolate that found an empty store
   * reads it again only after some seconds.
   */
  async awaitReadiness(deadlineSeconds: number): Promise<Readiness> {
    const deadline = Date.now() + deadlineSeconds * 1000;
    for (;;) {
      const readiness = await this.readiness();
      if (readiness.authority || Date.now() > deadline) return readiness;
      await sleep(200, undefined, { signal: this.#signal });
    }
  }

  /** Runs the scheduled handler once, as Cloudflare does by the clock. @returns Its faults. */
  async runCron(): Promise<readonly string[]> {
    const response = await this.#fetch("/cdn-cgi/local/scheduled?format=json");
    const text = await response.text();
    const isDone = response.ok && outcomeForm.safeParse(text).success;
    return isDone ? [] : [`the scheduled handler failed (${response.status}): ${text}`];
  }

  async #fetch(path: string): Promise<Response> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(10_000)]);
    return await fetch(`${this.url}${path}`, { signal });
  }
}
