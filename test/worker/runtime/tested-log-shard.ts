import { IssuanceLogShard } from "../../../src/worker/log/log-shard.ts";
import { logValues } from "./log-values.ts";

/** What R2 does with a put: it stores, refuses, or stores and loses the answer. */
type Puts = "store" | "refuse" | "store-and-fail";

interface Tested {
  /** The configuration, which a test may change before the log opens. */
  values: Record<string, unknown>;
  puts: Puts;
  flush: Promise<void> | undefined;
}

/** A shard with the configuration of its tests: the environment of all other tests logs nothing. */
export class TestedLogShard extends IssuanceLogShard {
  readonly #tested: Tested;

  constructor(state: DurableObjectState, environment: Readonly<Record<string, unknown>>) {
    const tested: Tested = { values: {}, puts: "store", flush: undefined };
    const { LOG_BUCKET: bucket } = environment;
    const sync = state.storage.sync.bind(state.storage);
    Object.defineProperty(state.storage, "sync", { value: () => tested.flush ?? sync() });
    const LOG_BUCKET = failing(bucket as R2Bucket, tested);
    tested.values = { ...environment, ...logValues, LOG_BUCKET };
    super(state, tested.values);
    this.#tested = tested;
  }

  configure(changes: Readonly<Record<string, unknown>>): void {
    Object.assign(this.#tested.values, changes);
  }

  setPuts(puts: Puts): void {
    this.#tested.puts = puts;
  }

  /** Has the platform take until then to flush what is committed. */
  setFlush(flush: Promise<void> | undefined): void {
    this.#tested.flush = flush;
  }
}

function failing(bucket: R2Bucket, state: { readonly puts: Puts }) {
  return {
    get: (key: string) => bucket.get(key),
    put: async (key: string, value: Uint8Array, options?: R2PutOptions) => {
      if (state.puts !== "refuse") await bucket.put(key, value, options);
      if (state.puts !== "store") throw new Error("put: Reduce your concurrent request rate");
    },
  };
}
