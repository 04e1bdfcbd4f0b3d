import { ResponseBody } from "../../foundation/fetch.ts";
import { NodeFetch } from "../../program/http/http-client.ts";

const usualTimeoutMilliseconds = 2_000;
const maximumOctets = 64 << 20;

const ask = NodeFetch.trusting(undefined);

/** The discovery services of Envoy's configuration, and the prefix of the statistics of each. */
const discoveries = {
  clusters: "cluster_manager.cds",
  listeners: "listener_manager.lds",
} as const;

const readinessStats =
  "^(server\\.state|listener_manager\\.workers_started|(cluster_manager\\.cds|listener_manager\\.lds)\\.update_(success|rejected))$";

const states = ["LIVE", "DRAINING", "PRE_INITIALIZING", "INITIALIZING"];

/** Listeners whose connections are not counted as clients: Envoy's own, and those for probes and scrapers. */
const auxiliaryListener =
  /^listener\.(?:admin\.|envoy_internal_|(?:0\.0\.0\.0|\[__\])_(?:15021|15090)\.)|\.worker_/;

/** Envoy's admin interface. Each method throws if Envoy does not answer in time, or not with success. */
export class EnvoyAdmin {
  readonly #url: string;
  readonly #timeoutMilliseconds: number;

  constructor(url: string, timeoutMilliseconds: number = usualTimeoutMilliseconds) {
    this.#url = url.replace(/\/+$/, "");
    this.#timeoutMilliseconds = timeoutMilliseconds;
  }

  /**
   * Makes every listener tell its connections to close, and does not wait until they have.
   *
   * @param endsListeners Whether the listeners close after Envoy's `--drain-time-s`.
   */
  async drain(endsListeners: boolean, signal?: AbortSignal): Promise<void> {
    const option = endsListeners ? "" : "&skip_exit";
    await this.#ask("POST", `/drain_listeners?graceful${option}`, signal);
  }

  /**
   * Why Envoy does not serve yet; empty once it does. As in pilot-agent, Envoy serves once it is live with its workers,
   * and has accepted listeners and clusters if it discovers them. Only a discovery service in use has counters.
   */
  async faults(): Promise<readonly string[]> {
    const stats = await this.#stats(readinessStats);
    const missing = Object.entries(discoveries).flatMap(([what, prefix]) => {
      const taken = stats.get(`${prefix}.update_success`);
      if (taken === undefined || taken > 0) return [];
      const rejected = stats.get(`${prefix}.update_rejected`) ?? 0;
      return [rejected > 0 ? `Envoy rejected its ${what}` : `Envoy has no ${what} yet`];
    });
    const state = stats.get("server.state") ?? states.length;
    if (state !== 0)
      return [`Envoy is not live but ${states[state] ?? "in no known state"}`, ...missing];
    if (stats.get("listener_manager.workers_started") === 0) {
      return ["Envoy's workers have not started", ...missing];
    }
    return missing;
  }

  /** The number of open connections of clients; `undefined` if Envoy has no such statistics. */
  async activeConnections(): Promise<number | undefined> {
    const stats = await this.#stats("^listener\\..*downstream_cx_active$");
    const counts = [...stats].filter(([name]) => !auxiliaryListener.test(name));
    return counts.length === 0 ? undefined : counts.reduce((sum, [, count]) => sum + count, 0);
  }

  /** Envoy's metrics in Prometheus' text format. */
  metrics(): Promise<string> {
    return this.#ask("GET", "/stats/prometheus");
  }

  async #stats(filter: string): Promise<ReadonlyMap<string, number>> {
    const text = await this.#ask("GET", `/stats?filter=${encodeURIComponent(filter)}`);
    const lines = [...text.matchAll(/^(.+): (\d+)$/gm)];
    return new Map(lines.map(([, name = "", value]) => [name, Number(value)]));
  }

  async #ask(method: "GET" | "POST", path: string, signal?: AbortSignal): Promise<string> {
    const timeout = AbortSignal.timeout(this.#timeoutMilliseconds);
    const response = await ask(`${this.#url}${path}`, {
      method,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await ResponseBody.readText(response, maximumOctets);
    if (response.ok) return text;
    throw new Error(`Envoy's admin interface answered with status ${response.status}`);
  }
}
