import { IssuanceLogShard as Shard } from "../../src/worker/log/log-shard.ts";
import { openWorkerLog } from "../../src/worker/log/worker-log.ts";
import { createWorker } from "../../src/worker/worker.ts";
import bench from "./main.ts";

/** What Cloudflare bills for a log, as far as calls cause it. */
const counts = { calls: 0, rows: 0, puts: 0, gets: 0 };

const origin = "log.example.com/bench";

/** The log publishes when it is told to. Workers have no time while a module loads. */
const logValues = () => ({
  LOG_ORIGIN: origin,
  LOG_INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  LOG_INTERVAL: "1h",
});

/** A shard of which every row that is written, and every put and get of R2, counts. */
export class IssuanceLogShard extends Shard {
  constructor(state: DurableObjectState, environment: Environment) {
    countRows(state.storage);
    super(state, { ...environment, ...logValues(), LOG_BUCKET: counted(environment.LOG_BUCKET) });
  }

  /** Does what the platform does when it is time. */
  async publish(): Promise<void> {
    await this.alarm();
  }
}

interface Environment {
  readonly AUTHORITIES: KVNamespace;
  readonly LOG_SHARD: DurableObjectNamespace<IssuanceLogShard>;
  readonly LOG_BUCKET: R2Bucket;
  readonly [key: string]: unknown;
}

/** An alarm that is set and a value that is put are a row each. */
function countRows(storage: DurableObjectStorage): void {
  const { sql } = storage;
  const exec = (query: string, ...bindings: unknown[]) => {
    const cursor = sql.exec(query, ...bindings);
    counts.rows += cursor.rowsWritten;
    return cursor;
  };
  Object.defineProperty(storage, "sql", { value: { exec } });
  for (const name of ["setAlarm", "put"] as const) {
    const write = storage[name].bind(storage) as (...values: unknown[]) => Promise<void>;
    const value = (...values: unknown[]) => {
      counts.rows++;
      return write(...values);
    };
    Object.defineProperty(storage, name, { value });
  }
}

function counted(bucket: R2Bucket) {
  return {
    get: (key: string) => {
      counts.gets++;
      return bucket.get(key);
    },
    put: (key: string, value: Uint8Array, options?: R2PutOptions) => {
      counts.puts++;
      return bucket.put(key, value, options);
    },
  };
}

const logging = createWorker({ clock: () => new Date(), openLog: openWorkerLog });
let environments: Readonly<Record<"off" | "on", Environment>> | undefined;

function environmentsOf({ LOG_SHARD, LOG_BUCKET, ...off }: Environment) {
  const getByName = (name: string) => {
    counts.calls++;
    return LOG_SHARD.getByName(name);
  };
  const on = { ...off, ...logValues(), LOG_BUCKET, LOG_SHARD: { getByName } };
  return { off, on } as unknown as Record<"off" | "on", Environment>;
}

/** The Worker under measurement, without a log, or with one for calls with the header `bench-log`. */
export default {
  async fetch(request: Request, environment: Environment): Promise<Response> {
    environments ??= environmentsOf(environment);
    if (request.headers.get("bench-log") === "on") return logging.fetch(request, environments.on);
    if (request.url.endsWith("/bench/log-counts")) return Response.json(counts);
    if (request.url.endsWith("/bench/log-publish")) {
      await environment.LOG_SHARD.getByName(`${origin}/0`).publish();
      return new Response();
    }
    return bench.fetch(request, environments.off);
  },
};
