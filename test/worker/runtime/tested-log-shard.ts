import { IssuanceLogShard } from "../../../src/worker/log/log-shard.ts";
import { logValues } from "./log-values.ts";

/** What R2 does with a put: it stores, refuses, or stores and loses the answer. */
type Puts = "store" | "refuse" | "store-and-fail";

/** A shard with the configuration of its tests: the environment of all other tests logs nothing. */
export class TestedLogShard extends IssuanceLogShard {
  readonly #bucket: { puts: Puts };

  constructor(state: DurableObjectState, environment: Readonly<Record<string, unknown>>) {
    const tested: { puts: Puts } = { puts: "store" };
    const { LOG_BUCKET: bucket } = environment;
    super(state, {
      ...environment,
      ...logValues,
      LOG_BUCKET: failing(bucket as R2Bucket, tested),
    });
    this.#bucket = tested;
  }

  setPuts(puts: Puts): void {
    this.#bucket.puts = puts;
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
