import { describe, expect, test } from "vitest";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { telemetryVariables } from "../../../src/program/otlp/variables.ts";

const all = "OTEL_EXPORTER_OTLP_ENDPOINT";
const here = { [all]: "http://127.0.0.1:4318" };
const endpointRule =
  "must be an https URL, or an http URL of this machine; OTEL_EXPORTER_OTLP_INSECURE=true allows http to others";

function faultsOf(work: () => unknown): readonly string[] {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigurationError) return error.faults;
    throw error;
  }
  return [];
}

describe("the variables of OpenTelemetry", () => {
  test.each<[string, Record<string, string>, string | undefined, string | undefined]>([
    ["no endpoint", {}, undefined, undefined],
    ["empty ones", { [all]: "" }, undefined, undefined],
    ["one for all", here, "http://127.0.0.1:4318/v1/metrics", "http://127.0.0.1:4318/v1/traces"],
    [
      "one with a path and slashes",
      { [all]: "https://c.example/otlp//" },
      "https://c.example/otlp/v1/metrics",
      "https://c.example/otlp/v1/traces",
    ],
    [
      "one with a query",
      { [all]: "https://c.example/otlp?a=b" },
      "https://c.example/otlp/v1/metrics?a=b",
      "https://c.example/otlp/v1/traces?a=b",
    ],
    [
      "one of a signal, as it is",
      { ...here, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://t.example/in" },
      "http://127.0.0.1:4318/v1/metrics",
      "https://t.example/in",
    ],
    [
      "one of a signal alone",
      { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "https://m.example" },
      "https://m.example/",
      undefined,
    ],
    [
      "a signal that is none",
      { ...here, OTEL_TRACES_EXPORTER: "none" },
      `${here[all]}/v1/metrics`,
      undefined,
    ],
    [
      "http elsewhere that is asked for",
      { [all]: "http://collector.observability:4318", OTEL_EXPORTER_OTLP_INSECURE: "true" },
      "http://collector.observability:4318/v1/metrics",
      "http://collector.observability:4318/v1/traces",
    ],
    ["everything off", { ...here, OTEL_SDK_DISABLED: "TRUE" }, undefined, undefined],
  ])("with %s", (_, environment, metrics, traces) => {
    const read = telemetryVariables(environment);
    expect([read?.metrics?.url, read?.traces?.url]).toEqual([metrics, traces]);
  });

  test("have a value of a signal before that of all", () => {
    const read = telemetryVariables({
      ...here,
      OTEL_EXPORTER_OTLP_HEADERS: "a=1, b = x%20y ,",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "c=Basic%20YTpi",
      OTEL_EXPORTER_OTLP_TIMEOUT: "5000",
      OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: "20",
      OTEL_EXPORTER_OTLP_CERTIFICATE: "/roots.pem",
      OTEL_EXPORTER_OTLP_PROTOCOL: "HTTP/JSON",
      OTEL_METRIC_EXPORT_INTERVAL: "1000",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=a,team=Z%C3%BCrich",
      OTEL_SERVICE_NAME: "b",
    });
    expect(read).toEqual({
      metrics: {
        url: "http://127.0.0.1:4318/v1/metrics",
        headers: { a: "1", b: "x y" },
        timeoutMilliseconds: 20,
        rootsFile: "/roots.pem",
      },
      traces: {
        url: "http://127.0.0.1:4318/v1/traces",
        headers: { c: "Basic YTpi" },
        timeoutMilliseconds: 5000,
        rootsFile: "/roots.pem",
      },
      attributes: { "service.name": "b", team: "Zürich" },
      interval: 1000,
    });
  });

  const pairs = "must be name=value, with commas between them";
  const fixed = (name: string, value: string): [string, string, string] => [
    `OTEL_EXPORTER_OTLP_${name}`,
    value,
    `must be ${name.includes("PROTOCOL") ? "http/json" : name.includes("COMPRESSION") ? "none" : "cumulative"}`,
  ];
  test.each<[string, string, string]>([
    [all, "collector:4318", endpointRule],
    [all, "http://collector:4318", endpointRule],
    [all, "ftp://127.0.0.1", endpointRule],
    [all, "https://user:secret@c.example", endpointRule],
    [all, "https://c.example/#a", endpointRule],
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318", endpointRule],
    fixed("PROTOCOL", "grpc"),
    fixed("PROTOCOL", "http/protobuf"),
    fixed("COMPRESSION", "gzip"),
    fixed("METRICS_TEMPORALITY_PREFERENCE", "delta"),
    [
      "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
      "/c.pem",
      "must be empty: a collector is shown no certificate",
    ],
    ["OTEL_EXPORTER_OTLP_HEADERS", "secret", pairs],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a b=c", pairs],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac: d", pairs],
    ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%C3%BC", pairs],
    ["OTEL_RESOURCE_ATTRIBUTES", "a=b,c", pairs],
    ["OTEL_EXPORTER_OTLP_TIMEOUT", "0", "must be milliseconds from 1 to 600000"],
    ["OTEL_METRIC_EXPORT_INTERVAL", "99", "must be milliseconds from 100 to 86400000"],
    ["OTEL_SDK_DISABLED", "yes", "must be true or false"],
    ["OTEL_EXPORTER_OTLP_INSECURE", "1", "must be true or false"],
    ["OTEL_METRICS_EXPORTER", "prometheus", "must be otlp or none"],
    ["OTEL_TRACES_EXPORTER", "console", "must be otlp or none"],
  ])("refuse %s = %s", (name, value, rule) => {
    const faults = faultsOf(() => telemetryVariables({ ...here, [name]: value }));
    expect(faults).toEqual([`${name}: ${rule}`]);
  });

  test("are all named at once, and each once", () => {
    const wrong = { [all]: "c:1", OTEL_SDK_DISABLED: "no", OTEL_EXPORTER_OTLP_TIMEOUT: "x" };
    const faults = faultsOf(() => telemetryVariables(wrong));
    expect(faults.map((fault) => fault.split(":")[0])).toEqual([
      "OTEL_SDK_DISABLED",
      all,
      "OTEL_EXPORTER_OTLP_TIMEOUT",
    ]);
  });
});
