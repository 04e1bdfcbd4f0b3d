import type { IncomingMessage } from "node:http";
import { startLoopbackServer } from "../network/loopback-server.ts";

// biome-ignore lint/suspicious/noExplicitAny: the form of OTLP
type Any = any;

/** What a collector answers: a status, its headers, its body; `undefined` for no answer at all. */
export type CollectorAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  | undefined;

/** A collector of OTLP/HTTP that answers as a test has it. */
export interface PlayedCollector {
  readonly url: string;
  readonly requests: { readonly path: string; readonly headers: IncomingMessage["headers"] }[];
  /** The accepted metrics, by their names; the last of each counts. */
  readonly metrics: Map<string, Any>;
  readonly spans: Any[];
  /** Attributes of the resource of the last request. */
  readonly resource: () => Readonly<Record<string, unknown>>;
  answer: () => CollectorAnswer;
}

export async function playCollector(): Promise<PlayedCollector> {
  let resource: Any;
  const played = {
    requests: [] as PlayedCollector["requests"],
    metrics: new Map<string, Any>(),
    spans: [] as Any[],
    resource: () => attributesOf(resource),
    answer: (): CollectorAnswer => ({ status: 200 }),
  };
  const { origin: url } = await startLoopbackServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { url: path = "", headers } = request;
    played.requests.push({ path, headers });
    const answer = played.answer();
    if (!answer) return;
    if (answer.status === 200) {
      const { resourceMetrics = [], resourceSpans = [] } = JSON.parse(text);
      for (const each of [...resourceMetrics, ...resourceSpans]) resource = each.resource;
      for (const { scopeMetrics } of resourceMetrics)
        for (const metric of scopeMetrics[0].metrics) played.metrics.set(metric.name, metric);
      for (const { scopeSpans } of resourceSpans) played.spans.push(...scopeSpans[0].spans);
    }
    response.writeHead(answer.status, answer.headers).end(answer.body ?? "{}");
  });
  return Object.assign(played, { url });
}

/** Attributes of OTLP as an object. */
export const attributesOf = ({ attributes }: Any): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    attributes.map(({ key, value }: Any) => [key, Object.values(value)[0]] as const),
  );
