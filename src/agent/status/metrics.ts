import { Counter, Gauge, Registry } from "prom-client";
import type { IssuanceMetrics } from "../identity/certificate-client.ts";

/** The values of the gauges, read at each scrape. */
interface MetricsView {
  /** Each resource name with the expiry of its certificate. */
  expiries(): Iterable<readonly [resourceName: string, notAfter: Date]>;
  /** When the published bundle was last known to be current, if one is read, and whether it is followed. */
  readonly bundle: { readonly confirmedAt: Date | undefined; readonly isFollowed: boolean };
  /** The key identifier of each authority with a CRL, and when that runs out. */
  crlExpiries(): Iterable<readonly [authority: string, nextUpdate: Date]>;
}

const labels = { request_type: "csr" };

/** The metrics of an agent, under Istio's names where Istio has them. */
export class AgentMetrics implements IssuanceMetrics {
  readonly registry: Registry = new Registry();
  readonly #requests = this.#counter(
    "num_outgoing_requests",
    "Certificates requested, with all attempts.",
  );
  readonly #failures = this.#counter(
    "num_failed_outgoing_requests",
    "Requests that failed at last.",
  );
  readonly #retries = this.#counter("num_outgoing_retries", "Attempts after the first.");
  readonly #latency = this.#counter("outgoing_latency", "Milliseconds of all requests together.");
  readonly #watchFailures = this.#plainCounter("num_file_watcher_failures_total", "Lost watches.");
  readonly #secretFailures = this.#plainCounter(
    "num_file_secret_failures_total",
    "Unusable files.",
  );
  readonly #crlFaults = this.#plainCounter(
    "num_revocation_list_failures_total",
    "Published CRLs that were refused.",
  );

  /** Adds the gauges. Their values come from `view`. */
  observe(view: MetricsView, clock: () => Date): void {
    const secondsUntil = (instant: Date): number => (instant.getTime() - clock().getTime()) / 1000;
    this.#gauge(
      "cert_expiry_seconds",
      "Seconds until a certificate expires.",
      ["resource_name"],
      (set) => {
        for (const [name, end] of view.expiries()) set(secondsUntil(end), { resource_name: name });
      },
    );
    this.#gauge(
      "trust_bundle_age_seconds",
      "Seconds since the bundle was known to be current.",
      [],
      (set) => {
        const { confirmedAt } = view.bundle;
        if (confirmedAt) set(-secondsUntil(confirmedAt), {});
      },
    );
    this.#gauge("trust_bundle_followed", "1 if roots, taints and CRLs are followed.", [], (set) =>
      set(view.bundle.isFollowed ? 1 : 0, {}),
    );
    this.#gauge(
      "revocation_list_expiry_seconds",
      "Seconds until a CRL runs out.",
      ["authority"],
      (set) => {
        for (const [authority, end] of view.crlExpiries()) set(secondsUntil(end), { authority });
      },
    );
  }

  async timed<T>(request: () => Promise<T>): Promise<T> {
    this.#requests.inc(labels);
    const begin = performance.now();
    try {
      return await request();
    } catch (error) {
      this.#failures.inc(labels);
      throw error;
    } finally {
      this.#latency.inc(labels, performance.now() - begin);
    }
  }

  retried(): void {
    this.#retries.inc(labels);
  }

  watchFailed(): void {
    this.#watchFailures.inc();
  }

  fileSecretFailed(): void {
    this.#secretFailures.inc();
  }

  crlsRefused(count: number): void {
    this.#crlFaults.inc(count);
  }

  /** The text exposition format of Prometheus. */
  text(): Promise<string> {
    return this.registry.metrics();
  }

  #counter(name: string, help: string): Counter {
    const labelNames = Object.keys(labels);
    return new Counter({ ...named(name, help), labelNames, registers: [this.registry] });
  }

  #plainCounter(name: string, help: string): Counter {
    return new Counter({ ...named(name, help), registers: [this.registry] });
  }

  #gauge(
    name: string,
    help: string,
    labelNames: string[],
    collect: (set: (value: number, labels: Record<string, string>) => void) => void,
  ): void {
    const gauge = new Gauge({
      ...named(name, help),
      labelNames,
      registers: [this.registry],
      collect: () => {
        // A gauge without labels is 0 after a reset, which would be a value that nobody measured.
        if (labelNames.length === 0) gauge.remove();
        else gauge.reset();
        collect((value, of) => gauge.set(of, value));
      },
    });
  }
}

function named(name: string, help: string): { name: string; help: string } {
  return { name: `istio_agent_${name}`, help };
}
