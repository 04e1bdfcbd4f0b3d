import { type Counter, Registry } from "prom-client";
import type { LogOutput } from "../../program/log-output.ts";
import { Metrics } from "../../program/metrics.ts";
import type { IssuanceMetrics } from "../identity/ca-client.ts";

interface MetricsView {
  /** Each resource name with the expiry of its certificate. */
  readonly expiries: () => Iterable<readonly [resourceName: string, notAfter: Date]>;
  /** When the published bundle was last confirmed, if one is read, and whether the agent follows it. */
  readonly bundle: { readonly confirmedAt: Date | undefined; readonly isFollowed: boolean };
  /** The key identifier of each authority with a CRL, and when that CRL expires. */
  readonly crlExpiries: () => Iterable<readonly [authority: string, nextUpdate: Date]>;
}

const labels = { request_type: "csr" } as const;

/** The metrics of an agent, under Istio's names where Istio has them. */
export class AgentMetrics implements IssuanceMetrics {
  readonly registry: Registry = new Registry();
  readonly #requests = this.#ofCsrs(
    "num_outgoing_requests",
    "Certificates requested, with all attempts.",
  );
  readonly #failures = this.#ofCsrs(
    "num_failed_outgoing_requests",
    "Requests that failed at last.",
  );
  readonly #retries = this.#ofCsrs("num_outgoing_retries", "Attempts after the first.");
  readonly #latency = this.#ofCsrs("outgoing_latency", "Milliseconds of all requests together.");
  readonly #secretFailures = this.#counter("num_file_secret_failures_total", "Unusable files.");
  readonly #crlFaults = this.#counter(
    "num_revocation_list_failures_total",
    "Published CRLs that were refused.",
  );

  constructor(logOutput?: LogOutput) {
    Metrics.addLostLines(this.registry, logOutput);
  }

  /** Registers the gauges that read this view at each scrape. Call it once. */
  observe({ expiries, bundle, crlExpiries }: MetricsView, clock: () => Date): void {
    const secondsUntil = (instant: Date): number => (instant.getTime() - clock().getTime()) / 1000;
    const gauge = (name: string, help: string, read: ReadGauge, ...labelNames: string[]): void =>
      Metrics.addReadSeries(this.registry, {
        type: "gauge",
        name: named(name),
        help,
        labelNames,
        read,
      });
    const ofEach = (label: string, ends: MetricsView["expiries"]): ReadGauge =>
      function* () {
        for (const [name, end] of ends()) yield [secondsUntil(end), { [label]: name }];
      };
    const [resource, authority] = ["resource_name", "authority"];
    const expiry = "Seconds until a certificate expires.";
    gauge("cert_expiry_seconds", expiry, ofEach(resource, expiries), resource);
    gauge("trust_bundle_age_seconds", "Seconds since the bundle was known to be current.", () => {
      const { confirmedAt } = bundle;
      return confirmedAt ? [[-secondsUntil(confirmedAt), {}]] : [];
    });
    gauge("trust_bundle_followed", "1 if roots, taints and CRLs are followed.", () => [
      [bundle.isFollowed ? 1 : 0, {}],
    ]);
    const crlExpiry = "Seconds until a CRL runs out.";
    gauge("revocation_list_expiry_seconds", crlExpiry, ofEach(authority, crlExpiries), authority);
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

  fileSecretFailed(): void {
    this.#secretFailures.inc();
  }

  crlsRefused(count: number): void {
    this.#crlFaults.inc(count);
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  #ofCsrs(name: string, help: string): Counter<"request_type"> {
    return Metrics.addCounter(this.registry, named(name), help, "request_type");
  }

  #counter(name: string, help: string): Counter<never> {
    return Metrics.addCounter(this.registry, named(name), help);
  }
}

type ReadGauge = Parameters<typeof Metrics.addReadSeries>[1]["read"];

const named = (name: string): string => `istio_agent_${name}`;
