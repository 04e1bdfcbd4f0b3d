import { parseDocument } from "yaml";
import * as z from "zod/mini";
import { Duration, refuse } from "../../foundation/text.ts";

/** An integer of protobuf's JSON form, which may be a string. */
const wholeNumber = (least: number, most: number): z.ZodMiniType<number> =>
  z.coerce.number().check(z.int(), z.minimum(least), z.maximum(most));

/** A number of a TCP port, from 1 to 65,535. */
export const port: z.ZodMiniType<number> = wholeNumber(1, 65_535);

/** Seconds or a count, in which protobuf's 0 means "unset". */
const orDefault = (otherwise: number) =>
  z.pipe(
    z._default(wholeNumber(0, 86_400), 0),
    z.transform((value) => value || otherwise),
  );

const optionalText = z.pipe(
  z.optional(z.string()),
  z.transform((value) => value || undefined),
);

const scheme = z.pipe(
  z._default(z.enum(["HTTP", "HTTPS", "http", "https", ""]), ""),
  z.transform((value) => (value.toLowerCase() === "https" ? "https" : "http")),
);

const httpGet = z.object({
  scheme,
  host: optionalText,
  port,
  path: z.pipe(
    z._default(z.string(), ""),
    z.transform((path) => (path.startsWith("/") ? path : `/${path}`)),
  ),
  httpHeaders: z._default(
    z.array(z.object({ name: z.string().check(z.minLength(1)), value: z.string() })),
    [],
  ),
});

const grpc = z.object({ port, service: z._default(z.string(), "") });

const probe = z.object({
  httpGet: z.optional(httpGet),
  tcpSocket: z.optional(z.object({ host: optionalText, port })),
  grpc: z.optional(grpc),
  exec: z.optional(z.object({ command: z.array(z.string()).check(z.minLength(1)) })),
  initialDelaySeconds: z._default(wholeNumber(0, 86_400), 0),
  timeoutSeconds: orDefault(1),
  periodSeconds: orDefault(10),
  /** Probes in a row that make the workload healthy. */
  successThreshold: orDefault(1),
  /** Probes in a row that make it unhealthy. */
  failureThreshold: orDefault(1),
});

/** A readiness probe as `PROXY_CONFIG` has it, with Istio's defaults. */
const readinessProbe = z.pipe(
  probe,
  z.transform(({ httpGet, tcpSocket, grpc, exec, ...timing }, context) => {
    const methods = [
      ...(httpGet ? [{ kind: "http" as const, ...httpGet }] : []),
      ...(tcpSocket ? [{ kind: "tcp" as const, ...tcpSocket }] : []),
      ...(grpc ? [{ kind: "grpc" as const, ...grpc }] : []),
      ...(exec ? [{ kind: "exec" as const, ...exec }] : []),
    ];
    const [method] = methods;
    if (method && methods.length === 1) return { method, ...timing };
    return refuse(context, "must have exactly one of httpGet, tcpSocket, grpc and exec");
  }),
);

/** When and how the workload is asked whether it is ready (Istio's `ReadinessProbe`). */
export type ReadinessProbe = z.output<typeof readinessProbe>;

/** How a probe asks the workload. */
export type ProbeMethod = ReadinessProbe["method"];

type JsonObject = Readonly<Record<string, unknown>>;

const text = z.pipe(
  z.union([z.string(), z.number(), z.boolean()]),
  z.transform((value) => String(value)),
);

const fields = z.object({
  /** `host:port` of istiod. */
  discoveryAddress: optionalText,
  controlPlaneAuthPolicy: z._default(z.enum(["NONE", "MUTUAL_TLS"]), "MUTUAL_TLS"),
  configPath: z.pipe(
    optionalText,
    z.transform((path) => path ?? "./etc/istio/proxy"),
  ),
  serviceCluster: optionalText,
  concurrency: z.optional(wholeNumber(0, 4096)),
  proxyAdminPort: z._default(port, 15_000),
  statusPort: z._default(port, 15_020),
  drainDuration: z.prefault(Duration.milliseconds, "45s"),
  terminationDrainDuration: z.optional(Duration.milliseconds),
  readinessProbe: z.optional(readinessProbe),
  /** Further variables, such as `ISTIO_META_NETWORK`. */
  proxyMetadata: z._default(z.record(z.string(), text), {}),
  runtimeValues: z._default(z.record(z.string(), text), {}),
  /** All fields as given, for istiod, which reads more of them than the agent. */
  given: z.custom<JsonObject>(),
});

/** `PROXY_CONFIG`: Istio's `ProxyConfig` as YAML or JSON. Fields that the agent does not read are allowed. */
export const proxyConfig = z.pipe(
  z.pipe(z.string(), z.transform(parseObject)),
  z.pipe(
    fields,
    z.transform(({ controlPlaneAuthPolicy, drainDuration, terminationDrainDuration, ...rest }) => ({
      ...rest,
      /** Whether the agent speaks to istiod in plaintext. */
      isPlaintext: controlPlaneAuthPolicy === "NONE",
      /** Envoy's `--drain-time-s`. */
      drainMilliseconds: drainDuration,
      terminationDrainMilliseconds: terminationDrainDuration,
    })),
  ),
);

function parseObject(yaml: string, context: z.core.ParsePayload) {
  const document = parseDocument(yaml);
  const value: unknown = document.errors.length > 0 ? undefined : (document.toJS() ?? {});
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const given = camelCased(value) as JsonObject;
    return { ...given, given };
  }
  return refuse(context, "must be a YAML or JSON object");
}

/** Objects whose keys are names that users choose, and so are not converted to camel case. */
const namedByTheirUser: ReadonlySet<string> = new Set(["proxyMetadata", "runtimeValues"]);

/** Converts keys to camel case, because protobuf's JSON form accepts `drain_duration` for `drainDuration`. */
function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => {
    const name = key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    return [name, namedByTheirUser.has(name) ? member : camelCased(member)] as const;
  });
  return Object.fromEntries(entries);
}
