import type { Registry } from "prom-client";
import { Metrics } from "../../program/metrics.ts";
import type { DiscoveryProtocol, RequestPeek } from "./discovery-protocol.ts";
import { isExpected } from "./grpc.ts";
import type { SeenResponse, StreamEnd } from "./xds-stream.ts";

interface TypeActivity {
  lastPush: Date | undefined;
  pushes: number;
  octets: number;
  nacks: number;
}

/** About ten types exist. Beyond this bound no more are recorded. */
const maximumTypes = 100;
const longestDetail = 500;

/** Records what happens on the XDS proxy's streams, for the status and metrics. */
export class XdsStatus {
  readonly #address: string;
  readonly #clock: () => Date;
  readonly #counters: ReturnType<typeof countersIn>;
  readonly #types = new Map<string, TypeActivity>();
  #connection: { readonly since: Date; readonly protocol: DiscoveryProtocol["name"] } | undefined;
  #lastEnd: { readonly at: string; readonly by: string; readonly detail: string } | undefined;
  #lastNack: { readonly at: string; readonly typeUrl: string; readonly detail: string } | undefined;

  constructor(address: string, clock: () => Date, registry: Registry) {
    this.#address = address;
    this.#clock = clock;
    this.#counters = countersIn(registry);
    observeTypes(registry, () => this.report());
  }

  /** Records that a new stream has replaced the one before. */
  opening(): void {
    this.#connection = undefined;
  }

  connected(protocol: DiscoveryProtocol["name"]): void {
    this.#connection = { since: this.#clock(), protocol };
  }

  /** Records the end of a stream. @param isCurrent Whether no newer stream has replaced it. */
  ended({ by, status, wasConnected }: StreamEnd, isCurrent: boolean): void {
    const type = isExpected(status) ? "cancelled" : "error";
    if (by === "istiod" && !wasConnected) this.#counters.failures.inc();
    else if (by === "istiod") this.#counters.istiodEnds.inc({ type });
    else if (by === "envoy") this.#counters.envoyEnds.inc({ type });
    if (!isCurrent) return;
    this.#connection = undefined;
    const detail = (status.message || `status ${status.code}`).slice(0, longestDetail);
    this.#lastEnd = { at: this.#clock().toISOString(), by, detail };
  }

  request({ typeUrl, rejection }: RequestPeek): void {
    this.#counters.requests.inc();
    if (rejection === undefined) return;
    const type = this.#typeOf(typeUrl);
    if (type) type.nacks++;
    const detail = rejection.slice(0, longestDetail);
    this.#lastNack = { at: this.#clock().toISOString(), typeUrl, detail };
  }

  response({ typeUrl, octets, isForwarded }: SeenResponse): void {
    this.#counters.responses.inc();
    const type = isForwarded ? this.#typeOf(typeUrl) : undefined;
    if (!type) return;
    type.pushes++;
    type.octets += octets;
    type.lastPush = this.#clock();
  }

  report() {
    return {
      address: this.#address,
      isConnected: this.#connection !== undefined,
      protocol: this.#connection?.protocol,
      connectedSince: this.#connection?.since.toISOString(),
      /** When and why the last stream ended, or could not be opened, and by which side. */
      lastEnd: this.#lastEnd,
      types: [...this.#types].map(([typeUrl, type]) => this.#reportType(typeUrl, type)),
      /** The last time that Envoy rejected what istiod sent. */
      lastNack: this.#lastNack,
    };
  }

  #reportType(typeUrl: string, { lastPush, ...counts }: TypeActivity) {
    const milliseconds = lastPush && this.#clock().getTime() - lastPush.getTime();
    return {
      typeUrl,
      lastPushAt: lastPush?.toISOString(),
      secondsAgo: milliseconds === undefined ? undefined : Math.round(milliseconds / 1000),
      ...counts,
    };
  }

  #typeOf(typeUrl: string): TypeActivity | undefined {
    const known = this.#types.get(typeUrl);
    if (known || this.#types.size >= maximumTypes) return known;
    const type = { lastPush: undefined, pushes: 0, octets: 0, nacks: 0 };
    this.#types.set(typeUrl, type);
    return type;
  }
}

/** The report of the XDS proxy for the agent's status. */
export type XdsReport = ReturnType<XdsStatus["report"]>;

/** The counters of the XDS proxy, under Istio's names. */
function countersIn(registry: Registry) {
  const counter = <Label extends string = never>(name: string, help: string, ...of: Label[]) =>
    Metrics.addCounter(registry, `istio_agent_${name}`, help, ...of);
  return {
    failures: counter("istiod_connection_failures", "Connections that did not open."),
    istiodEnds: counter("istiod_connection_terminations", "Ends of istiod.", "type"),
    envoyEnds: counter("envoy_connection_terminations", "Ends of Envoy.", "type"),
    requests: counter("xds_proxy_requests", "Requests to istiod."),
    responses: counter("xds_proxy_responses", "Responses of istiod."),
  };
}

/** Metrics that pilot-agent lacks. */
function observeTypes(registry: Registry, report: () => XdsReport): void {
  type Read = (type: XdsReport["types"][number]) => number | undefined;
  const add = (type: "counter" | "gauge", name: string, help: string, value: Read): void =>
    Metrics.addReadSeries(registry, {
      type,
      name: `istio_agent_${name}`,
      help,
      labelNames: ["type_url"],
      *read() {
        for (const each of report().types) {
          const read = value(each);
          if (read !== undefined) yield [read, { type_url: each.typeUrl }];
        }
      },
    });
  const age = "Seconds since the last push.";
  add("gauge", "xds_last_push_age_seconds", age, ({ secondsAgo }) => secondsAgo);
  add("counter", "xds_pushed_octets", "Octets of all pushes.", ({ octets }) => octets);
  add("counter", "xds_nacks", "Pushes that Envoy rejected.", ({ nacks }) => nacks);
}
