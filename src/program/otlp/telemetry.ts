import { randomUUID } from "node:crypto";
import { Backoff } from "../../foundation/backoff.ts";
import { version } from "../../foundation/build.ts";
import { OperationLog } from "../../foundation/events.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { waitFor } from "../../foundation/pause.ts";
import { PemFile } from "../files/pem-file.ts";
import { NodeFetch } from "../http/http-client.ts";
import { Metrics } from "../metrics.ts";
import { Recurrence } from "../recurrence.ts";
import type { Measured, Telemetry } from "../telemetry.ts";
import { Collector } from "./collector.ts";
import { metricsOf } from "./data-points.ts";
import { createSpans } from "./spans.ts";
import { OtlpValue } from "./values.ts";
import { type Destination, telemetryVariables } from "./variables.ts";

/** The bounds of OpenTelemetry's batch processor. */
const batchSpans = 512;
const maximumSpans = 2_048;
const spanSeconds = 1;

/** The longest wait that a collector may ask for. */
const longestWaitSeconds = 300;

/** How long the last requests of a program may take: less than the time in which each of its parts must end. */
const flushMilliseconds = 1_500;

/** The programs that answer calls, and so have spans. */
const answering: readonly string[] = ["serve", "gateway"];

/**
 * Opens the export that the variables of OpenTelemetry ask for; of spans, only for `serve` and `gateway`.
 *
 * @param program Its verb.
 * @returns `undefined` if the variables ask for no export.
 * @throws ConfigurationError for a wrong value, and OperatorError for an unusable file of roots.
 */
export async function openTelemetry(
  environment: Readonly<Record<string, string | undefined>>,
  program: string,
  clock: () => Date,
): Promise<Telemetry | undefined> {
  const variables = telemetryVariables(environment);
  const metrics = await collectorAt(variables?.metrics);
  const traces = answering.includes(program) ? await collectorAt(variables?.traces) : undefined;
  if (!variables || !(metrics || traces)) return undefined;
  const instance = { "service.instance.id": randomUUID(), "process.pid": process.pid };
  const attributes = { ...instance, ...variables.attributes };
  const resource = OtlpValue.resource(`rampart-${program}`, attributes);
  const queue: SpanQueue = { spans: [], lost: 0 };
  return {
    spans: traces && createSpans(clock, (spans) => enqueue(queue, spans)),
    begin: (measured) => {
      const ending = new AbortController();
      const senderTo = createSenders(measured, ending.signal);
      const { interval } = variables;
      const exports = [
        metrics && exportOfMetrics(senderTo("metrics", metrics), measured, resource, interval),
        traces && exportOfSpans(senderTo("traces", traces), queue, resource),
      ];
      run(exports, measured, ending);
    },
  };
}

async function collectorAt(destination: Destination | undefined): Promise<Collector | undefined> {
  if (!destination) return undefined;
  const fetch = NodeFetch.trusting(await PemFile.readRoots(destination.rootsFile));
  return new Collector({ ...destination, fetch });
}

/** Work that repeats after `seconds`, or after those that it returns. */
interface Export {
  readonly seconds: number;
  readonly work: () => Promise<number | undefined>;
}

/** Repeats exports until the program ends, when each sends a last time. */
function run(
  exports: readonly (Export | undefined)[],
  { log, pause, life }: Measured,
  ending: AbortController,
): void {
  const failed = (error: unknown): void =>
    OperationLog.logFault(log, "telemetry-not-exported", error);
  const ends = exports.map((each) => {
    const running = each && Recurrence.start(each.work, each.seconds, failed, pause);
    return () => running?.end().then(each?.work).catch(failed);
  });
  life.endsWith("the export of telemetry", async () => {
    await waitFor(Promise.all(ends.map((end) => end())), flushMilliseconds);
    ending.abort();
  });
}

/** Sends the requests of one signal. */
interface Sender {
  /** @returns After how many seconds the request may be sent again; `undefined` once it may not. */
  readonly send: (request: object, items: number) => Promise<number | undefined>;
  readonly drop: (items: number) => void;
}

/** Creates senders, which count lost items and log only the first of failures in a row. */
function createSenders({ registry, log }: Measured, ending: AbortSignal) {
  const name = "rampart_telemetry_dropped_total";
  const help = "Data points of metrics, and spans of traces, that no collector has taken.";
  const dropped = Metrics.addCounter(registry, name, help, "signal");
  return (signal: "metrics" | "traces", collector: Collector): Sender => {
    let failures = 0;
    const drop = (items: number): void => dropped.inc({ signal }, items);
    const failed = (why: string): void => {
      if (failures++ > 0) return;
      const detail = `the collector ${why}`;
      log.operation({ event: "telemetry-not-exported", level: "warning", signal, detail });
    };
    const send: Sender["send"] = async (request, items) => {
      try {
        const { status, isAccepted, rejected } = await collector.send(request, items, ending);
        if (rejected === 0) failures = 0;
        else failed(isAccepted ? "rejected a part of a request" : `answered ${status}`);
        drop(rejected);
        return undefined;
      } catch (error) {
        if (!(error instanceof FetchError)) throw error;
        failed(error.message);
        const asked = Math.min(error.retryAfterSeconds ?? 0, longestWaitSeconds);
        return Backoff.milliseconds(Backoff.usual.outage, failures, Math.random(), asked) / 1000;
      }
    };
    return { send, drop };
  };
}

const scope = { name: "rampart", version };

/** Counts are cumulative, so a request that is lost need not be sent again. */
function exportOfMetrics(
  { send, drop }: Sender,
  { registry, clock }: Measured,
  resource: object,
  milliseconds: number,
): Export {
  const [seconds, begun] = [milliseconds / 1000, clock().getTime()];
  const work = async (): Promise<number | undefined> => {
    const { metrics, points } = metricsOf(await registry.getMetricsAsJSON(), {
      startTimeUnixNano: OtlpValue.nanoseconds(begun),
      timeUnixNano: OtlpValue.nanoseconds(Math.max(begun, clock().getTime())),
    });
    const scopeMetrics = [{ scope, metrics }];
    const wait = await send({ resourceMetrics: [{ resource, scopeMetrics }] }, points);
    if (wait === undefined) return undefined;
    drop(points);
    return Math.max(wait, seconds);
  };
  return { seconds, work };
}

/** Spans that wait to be sent, and how many were lost because the queue was full. */
interface SpanQueue {
  readonly spans: object[];
  lost: number;
}

function enqueue(queue: SpanQueue, spans: readonly object[]): void {
  const taken = spans.slice(0, maximumSpans - queue.spans.length);
  queue.spans.push(...taken);
  queue.lost += spans.length - taken.length;
}

function exportOfSpans({ send, drop }: Sender, queue: SpanQueue, resource: object): Export {
  const work = async (): Promise<number | undefined> => {
    drop(queue.lost);
    queue.lost = 0;
    while (queue.spans.length > 0) {
      const spans = queue.spans.slice(0, batchSpans);
      const scopeSpans = [{ scope, spans }];
      const wait = await send({ resourceSpans: [{ resource, scopeSpans }] }, spans.length);
      if (wait !== undefined) return wait;
      queue.spans.splice(0, spans.length);
    }
    return undefined;
  };
  return { seconds: spanSeconds, work };
}
