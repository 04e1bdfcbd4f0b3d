import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { openTelemetry } from "../../../src/program/otlp/telemetry.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { startScraped } from "../../testkit/observability/expositions.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { collectorWords } from "../log/collector.ts";
import { Restarted } from "../log/exported.ts";

const traceIds = ["1", "2", "3"].map((digit) => digit.repeat(32));
const parentId = "b7ad6b7169203331";
const issuer = "https://issuer.test";

/** A collector that accepts requests, and what it has accepted so far. */
async function startCollector(program: string) {
  const [folder, [port = 0]] = [await lastingFolder(), await freePorts(1)];
  const file = join(folder, "accepted");
  const collector = new Restarted(() => startChild(program, collectorWords(port, file)));
  const url = `http://127.0.0.1:${port}`;
  const headers = { "content-type": "application/json" };
  const ask = () => fetch(`${url}/v1/traces`, { method: "POST", headers, body: "{}" });
  await until("the collector listens", () =>
    ask().then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  const accepted = async (): Promise<readonly Accepted[]> =>
    (await readFile(file, "utf8").catch(() => ""))
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  return { url, collector, accepted };
}

interface Attributes {
  readonly attributes: readonly { key: string; value: { stringValue?: string } }[];
}

interface Accepted {
  readonly resourceMetrics?: readonly {
    readonly resource: Attributes;
    readonly scopeMetrics: readonly { metrics: readonly { name: string }[] }[];
  }[];
  readonly resourceSpans?: readonly { scopeSpans: readonly { spans: readonly Span[] }[] }[];
}

interface Span {
  readonly traceId: string;
  readonly name: string;
  readonly parentSpanId: string;
  readonly spanId: string;
}

/** Has every program end, and compares what it has sent with a scrape before. */
export async function metricsExported(program: string): Promise<readonly string[]> {
  const { url, collector, accepted } = await startCollector(program);
  await using ending = new AsyncDisposableStack();
  ending.defer(async () => void (await collector.end()));
  const { ports, agent, end } = await startScraped(url);
  const scraped = new Map([["agent", agent]]);
  for (const [name, port] of ports)
    scraped.set(name, await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  await end();
  const sent = new Map<string, Set<string>>();
  for (const { resource, scopeMetrics } of (await accepted()).flatMap(
    ({ resourceMetrics = [] }) => resourceMetrics,
  )) {
    const { value } = resource.attributes.find(({ key }) => key === "service.name") ?? {};
    const names = sent.get(value?.stringValue ?? "") ?? new Set();
    for (const { metrics } of scopeMetrics) for (const { name } of metrics) names.add(name);
    sent.set(value?.stringValue ?? "", names);
  }
  return [...scraped].flatMap(([name, text]) => {
    const names = sent.get(`rampart-${name}`) ?? new Set();
    const lacking = measuredIn(text).filter((each) => !names.has(each));
    return lacking.length === 0 ? [] : [`${name} has not sent ${lacking.join(", ")}`];
  });
}

/** The names of the metrics with a value; those of Node may lose theirs meanwhile. */
function measuredIn(text: string): readonly string[] {
  const types = [...text.matchAll(/^# TYPE (?!nodejs_)(\S+) \S+$/gm)].map(([, name = ""]) => name);
  return types.filter((name) =>
    new RegExp(`^${name}(?:_count)?(?:\\{[^\n]*\\})? (?!Nan)`, "m").test(text),
  );
}

/** Three calls to `serve`, of which one comes while the collector is away. */
export async function spansExported(program: string): Promise<readonly string[]> {
  const { url, collector, accepted } = await startCollector(program);
  await using ending = new AsyncDisposableStack();
  ending.defer(async () => void (await collector.end()));
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: url };
  const telemetry = await openTelemetry(environment, "serve", () => new Date());
  const key = await createTokenKey("ES256", "k1");
  const ca = await serveCa(
    { ISSUERS: [{ issuer, jwks: jwksOf(key) }] },
    undefined,
    "both",
    telemetry,
  );
  ending.defer(ca.end);
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const { csrPem: csr } = await createWorkload();
  const call = async (traceId = ""): Promise<void> => {
    const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
    const traceparent = `00-${traceId}-${parentId}-01`;
    await client.createCertificate({ csr }, { authorization: `Bearer ${token}`, traceparent });
    client.close();
  };
  const spansOf = async (traceId = ""): Promise<readonly Span[]> =>
    (await accepted())
      .flatMap(({ resourceSpans = [] }) => resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
      .filter((span) => span.traceId === traceId);
  await call(traceIds[0]);
  await until("the first call", async () => (await spansOf(traceIds[0])).length > 0);
  await collector.kill(() => call(traceIds[1]));
  await until("the call of the outage", async () => (await spansOf(traceIds[1])).length > 0);
  await call(traceIds[2]);
  await ca.server.close(1000);
  const found = await Promise.all(traceIds.map(spansOf));
  const names = found.map(([root, ...parts]) => {
    const isWhole = parts.every(({ parentSpanId }) => parentSpanId === root?.spanId);
    return [root?.parentSpanId, ...parts.map(({ name }) => name), isWhole].join(" ");
  });
  const wrong = names.filter((each) => each !== `${parentId} verify sign true`);
  return wrong.map((each) => `a trace of ${each}`);
}
