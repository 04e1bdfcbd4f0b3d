import { parseDocument } from "yaml";
import * as z from "zod/mini";
import { durationMilliseconds } from "../../foundation/text/duration.ts";
import { refuse } from "../../foundation/text/parsed-text.ts";
import { port, type ReadinessProbe, readinessProbe, wholeNumber } from "./readiness-probe.ts";

/** An object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The fields of Istio's `ProxyConfig` that the agent reads, with Istio's defaults. */
export interface ProxyConfig {
  /** `host:port` of istiod, or `undefined` if the field is missing. */
  readonly discoveryAddress: string | undefined;
  /** Whether the agent speaks to istiod in plaintext: `controlPlaneAuthPolicy: NONE`. */
  readonly isPlaintext: boolean;
  /** The folder of the XDS socket. */
  readonly configPath: string;
  readonly serviceCluster: string | undefined;
  readonly concurrency: number | undefined;
  readonly proxyAdminPort: number;
  readonly statusPort: number;
  /** Envoy's `--drain-time-s`. */
  readonly drainMilliseconds: number;
  readonly terminationDrainMilliseconds: number | undefined;
  readonly readinessProbe: ReadinessProbe | undefined;
  /** Variables, such as `ISTIO_META_NETWORK`. */
  readonly proxyMetadata: Readonly<Record<string, string>>;
  /** Flags of Envoy's runtime. */
  readonly runtimeValues: Readonly<Record<string, string>>;
  /** Everything that was given, for istiod: it reads fields that the agent does not. */
  readonly given: JsonObject;
}

const optionalText = z.pipe(
  z.optional(z.string()),
  z.transform((value) => value || undefined),
);

const text = z.pipe(
  z.union([z.string(), z.number(), z.boolean()]),
  z.transform((value) => String(value)),
);

const fields = z.object({
  discoveryAddress: optionalText,
  controlPlaneAuthPolicy: z._default(z.enum(["NONE", "MUTUAL_TLS"]), "MUTUAL_TLS"),
  configPath: optionalText,
  serviceCluster: optionalText,
  concurrency: z.optional(wholeNumber(0, 4096)),
  proxyAdminPort: z._default(port, 15_000),
  statusPort: z._default(port, 15_020),
  drainDuration: z.prefault(durationMilliseconds, "45s"),
  terminationDrainDuration: z.optional(durationMilliseconds),
  readinessProbe: z.optional(readinessProbe),
  proxyMetadata: z._default(z.record(z.string(), text), {}),
  runtimeValues: z._default(z.record(z.string(), text), {}),
});

/** `PROXY_CONFIG`: Istio's `ProxyConfig` as YAML or JSON. Fields that the agent does not read may be there. */
export const proxyConfig: z.ZodMiniType<ProxyConfig, string> = z.pipe(
  z.pipe(z.string(), z.transform(parseObject)),
  z.pipe(
    z.pipe(
      z.custom<JsonObject>(),
      z.transform((given: JsonObject) => ({ ...given, given })),
    ),
    z.pipe(
      z.extend(fields, { given: z.custom<JsonObject>() }),
      z.transform(
        ({ controlPlaneAuthPolicy, drainDuration, terminationDrainDuration, ...rest }) => ({
          ...rest,
          isPlaintext: controlPlaneAuthPolicy === "NONE",
          configPath: rest.configPath ?? "./etc/istio/proxy",
          concurrency: rest.concurrency,
          readinessProbe: rest.readinessProbe,
          drainMilliseconds: drainDuration,
          terminationDrainMilliseconds: terminationDrainDuration,
        }),
      ),
    ),
  ),
);

function parseObject(yaml: string, context: z.core.ParsePayload): JsonObject {
  const document = parseDocument(yaml);
  const value: unknown = document.errors.length > 0 ? undefined : (document.toJS() ?? {});
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return camelCased(value) as JsonObject;
  }
  return refuse(context, "must be a YAML or JSON object");
}

/** The keys of these are names of variables or flags. */
const namedByTheirUser: ReadonlySet<string> = new Set(["proxyMetadata", "runtimeValues"]);

/** Protobuf's JSON form takes `drain_duration` for `drainDuration`. */
function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, member]) => {
    const name = key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    return [name, namedByTheirUser.has(name) ? member : camelCased(member)] as const;
  });
  return Object.fromEntries(entries);
}
