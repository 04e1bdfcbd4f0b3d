import { isSafeToFetch } from "../../foundation/addresses.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import { otelPairs } from "./collector.ts";

/** The URL that metrics or traces are sent to, with headers, timeout and roots. */
export type Destination = Readonly<NonNullable<ReturnType<typeof destination>>>;

/** The parser of a value, and the rule that it breaks if the parser returns `undefined`. */
type Form<T> = readonly [parse: (text: string) => T | undefined, rule: string];
type Read = <T>(names: readonly string[], form: Form<T>) => T | undefined;

const anyText: Form<string> = [(text) => text, ""];
const oneOf = (...words: readonly string[]): Form<string> => [
  (text) => words.find((word) => word === text.toLowerCase()),
  `must be ${words.join(" or ")}`,
];
const pairs = (values?: RegExp): Form<Readonly<Record<string, string>>> => [
  (text) => otelPairs(text, values),
  "must be name=value, with commas between them",
];
const milliseconds = (least: number, most: number): Form<number> => [
  (text) => (/^\d{1,9}$/.test(text) && +text >= least && +text <= most ? +text : undefined),
  `must be milliseconds from ${least} to ${most}`,
];

/** Variables of which the programs support one value alone. */
const fixed = {
  PROTOCOL: oneOf("http/json"),
  COMPRESSION: oneOf("none"),
  METRICS_TEMPORALITY_PREFERENCE: oneOf("cumulative"),
  CLIENT_CERTIFICATE: [() => undefined, "must be empty: a collector is shown no certificate"],
} as const;

/**
 * Reads the variables of OpenTelemetry. An empty one counts as unset.
 *
 * @returns `undefined` if `OTEL_SDK_DISABLED` is true. `metrics` and `traces` are each `undefined` if their exporter is
 *   `none` or no endpoint is set, because there is no default endpoint.
 * @throws ConfigurationError with every fault; no line quotes a value.
 */
export function telemetryVariables(environment: Readonly<Record<string, string | undefined>>) {
  const faults = new Set<string>();
  const read: Read = (names, [parse, rule]) => {
    const name = names.find((each) => environment[each]) ?? "";
    const text = environment[name];
    const value = text && parse(text.trim());
    if (text && value === undefined) faults.add(`${name}: ${rule}`);
    return value || undefined;
  };
  if (read(["OTEL_SDK_DISABLED"], oneOf("true", "false")) === "true") return undefined;
  const variables = {
    metrics: destination(read, "METRICS"),
    traces: destination(read, "TRACES"),
    attributes: {
      ...read(["OTEL_RESOURCE_ATTRIBUTES"], pairs(/^\P{C}+$/u)),
      ...read(["OTEL_SERVICE_NAME"], [(name) => ({ "service.name": name }), ""]),
    },
    interval: read(["OTEL_METRIC_EXPORT_INTERVAL"], milliseconds(100, 86_400_000)) ?? 60_000,
  };
  if (faults.size > 0) throw new ConfigurationError([...faults]);
  return variables;
}

function destination(read: Read, signal: "METRICS" | "TRACES") {
  const names = (name: string): readonly string[] =>
    [`${signal}_${name}`, name].map((each) => `OTEL_EXPORTER_OTLP_${each}`);
  if (read([`OTEL_${signal}_EXPORTER`], oneOf("otlp", "none")) === "none") return undefined;
  for (const [name, form] of Object.entries(fixed)) read<unknown>(names(name), form);
  const isPlain = read(names("INSECURE"), oneOf("true", "false")) === "true";
  const [own = "", common = ""] = names("ENDPOINT");
  const url =
    read([own], endpoint(isPlain, "")) ??
    read([common], endpoint(isPlain, `/v1/${signal.toLowerCase()}`));
  const others = {
    headers: read(names("HEADERS"), pairs()) ?? {},
    timeoutMilliseconds: read(names("TIMEOUT"), milliseconds(1, 600_000)),
    /** The path of a PEM file with the collector's roots, instead of the system's. */
    rootsFile: read(names("CERTIFICATE"), anyText),
  };
  return url === undefined ? undefined : { url, ...others };
}

/** A URL. `path` is appended to the URL for all signals, and is empty for the URL of one signal. */
const endpoint = (isPlain: boolean, path: string): Form<string> => [
  (text) => {
    const safe = isPlain ? text.replace(/^http:/i, "https:") : text;
    if (!isSafeToFetch(safe)) return undefined;
    const url = new URL(text);
    if (path) url.pathname = url.pathname.replace(/\/*$/, path);
    return url.href;
  },
  "must be an https URL, or an http URL of this machine; OTEL_EXPORTER_OTLP_INSECURE=true allows http to others",
];
