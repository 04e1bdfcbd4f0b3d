import * as z from "zod/mini";
import { refuse } from "../../foundation/text/parsed-text.ts";

/** How a probe asks the workload. */
export type ProbeMethod =
  | {
      readonly kind: "http";
      readonly scheme: "http" | "https";
      readonly host: string | undefined;
      readonly port: number;
      readonly path: string;
      readonly headers: readonly { readonly name: string; readonly value: string }[];
    }
  | { readonly kind: "tcp"; readonly host: string | undefined; readonly port: number }
  | { readonly kind: "grpc"; readonly port: number; readonly service: string }
  | { readonly kind: "exec"; readonly command: readonly string[] };

/** When and how the workload is asked whether it is ready (Istio's `ReadinessProbe`). */
export interface ReadinessProbe {
  readonly method: ProbeMethod;
  readonly initialDelaySeconds: number;
  readonly timeoutSeconds: number;
  readonly periodSeconds: number;
  /** Probes in a row that make the workload healthy. */
  readonly successThreshold: number;
  /** Probes in a row that make it unhealthy. */
  readonly failureThreshold: number;
}

/** An integer of protobuf's JSON form, which may be a string. */
export const wholeNumber = (least: number, most: number): z.ZodMiniType<number> =>
  z.coerce.number().check(z.int(), z.minimum(least), z.maximum(most));

export const port: z.ZodMiniType<number> = wholeNumber(1, 65_535);

/** Seconds and counts have protobuf's 0 for "unset". */
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

const probe = z.object({
  httpGet: z.optional(httpGet),
  tcpSocket: z.optional(z.object({ host: optionalText, port })),
  grpc: z.optional(z.object({ port, service: z._default(z.string(), "") })),
  exec: z.optional(z.object({ command: z.array(z.string()).check(z.minLength(1)) })),
  initialDelaySeconds: z._default(wholeNumber(0, 86_400), 0),
  timeoutSeconds: orDefault(1),
  periodSeconds: orDefault(10),
  successThreshold: orDefault(1),
  failureThreshold: orDefault(1),
});

/** A readiness probe as `PROXY_CONFIG` has it, with Istio's defaults. */
export const readinessProbe: z.ZodMiniType<ReadinessProbe> = z.pipe(
  probe,
  z.transform(({ httpGet, tcpSocket, grpc, exec, ...timing }, context): ReadinessProbe => {
    const methods: readonly ProbeMethod[] = [
      ...(httpGet ? [httpMethod(httpGet)] : []),
      ...(tcpSocket ? [{ kind: "tcp" as const, ...tcpSocket }] : []),
      ...(grpc ? [{ kind: "grpc" as const, ...grpc }] : []),
      ...(exec ? [{ kind: "exec" as const, ...exec }] : []),
    ];
    const [method] = methods;
    if (method && methods.length === 1) return { method, ...timing };
    return refuse(context, "must have exactly one of httpGet, tcpSocket, grpc and exec");
  }),
);

function httpMethod({ httpHeaders: headers, ...request }: z.infer<typeof httpGet>): ProbeMethod {
  return { kind: "http", ...request, headers };
}
