import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { childProcesses, cpuMicroseconds } from "../measurement/process-cpu.ts";
import { bundleWorker } from "./bundle.ts";

/** A workerd that runs the Worker, with the means to send requests and to read their cost. */
export interface Edge {
  readonly url: URL;
  readonly send: (
    path: string,
    headers: Record<string, string>,
    body: Uint8Array | string,
  ) => Promise<Answer>;
  /** CPU that workerd has used so far, in microseconds. */
  readonly cpu: () => number;
  /** How many operations the Worker has asked of its KV namespace so far. */
  readonly storeReads: () => Promise<number>;
  /** The URL of V8's inspector; only for an edge with `hasInspector`. */
  readonly inspectorUrl: () => Promise<URL>;
  readonly close: () => Promise<void>;
}

/** The options of an edge. */
interface EdgeOptions {
  /** `ISSUERS`. */
  readonly issuers: readonly object[];
  readonly hasInspector?: boolean;
  /** Adds a Worker with an issuance log, for calls with the header `bench-log`. */
  readonly hasLog?: boolean;
  readonly bindings?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** Starts workerd as it runs at the edge: without a proxy, and with log lines written to a pipe. */
export async function startEdge({
  issuers,
  hasInspector,
  hasLog,
  bindings = {},
}: EdgeOptions): Promise<Edge> {
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: bundleWorker(`bench/worker/${hasLog ? "main-with-log" : "main"}.ts`).script,
      compatibilityDate: "2026-11-17",
      compatibilityFlags: ["no_nodejs_compat_v2"],
      kvNamespaces: ["AUTHORITIES"],
      bindings: {
        ...bindings,
        ISSUERS: JSON.stringify(issuers),
        KEK: `bench:${randomBytes(32).toString("base64")}`,
      },
      // Log lines are written, as at the edge, and dropped.
      handleStructuredLogs: () => undefined,
      unsafeLocalExplorer: false,
      unsafeObservability: false,
      ...(hasInspector && { inspectorPort: 0 }),
      ...(hasLog && {
        durableObjects: { LOG_SHARD: { className: "IssuanceLogShard", useSQLite: true } },
        r2Buckets: ["LOG_BUCKET"],
      }),
      unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
    }),
  );
  await miniflare.ready;
  const url = await miniflare.unsafeGetDirectURL();
  const [pid] = childProcesses(process.pid, "workerd");
  if (pid === undefined) throw new Error("workerd does not run");
  const agent = new Agent({ keepAlive: true, maxSockets: hasLog ? 64 : 8 });
  return {
    url: new URL(url),
    send: (path, headers, body) => send(agent, new URL(path, url), headers, body),
    cpu: () => cpuMicroseconds(pid),
    storeReads: async () => {
      const { body } = await send(agent, new URL("/bench/store-reads", url), {}, "");
      return Number(body.toString());
    },
    inspectorUrl: () => miniflare.getInspectorURL(),
    close: async () => {
      agent.destroy();
      await miniflare.dispose();
    },
  };
}

function send(
  agent: Agent,
  url: URL,
  headers: Record<string, string>,
  body: Uint8Array | string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      url,
      { agent, method: "POST", headers: { ...headers, "content-length": Buffer.byteLength(body) } },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
        incoming.on("end", () =>
          resolve({ status: incoming.statusCode ?? 0, body: Buffer.concat(chunks) }),
        );
        incoming.on("error", reject);
      },
    );
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
