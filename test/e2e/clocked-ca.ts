import type { TestHarness } from "wrangler";
import type { KvNamespace } from "../../src/worker/kv-store.ts";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";

/** A CA in workerd with a clock that a test moves. */
export interface ClockedCa {
  readonly now: () => Date;
  readonly pass: (seconds: number) => void;
  readonly runCron: () => Promise<void>;
  readonly fetch: (path: string, init?: RequestInit) => Promise<Response>;
  /** Starts an isolate with these variables over those of all CAs. Its storage stays. */
  readonly deploy: (values: object) => Promise<void>;
  /** The KV namespace of its authorities. */
  readonly namespace: () => Promise<KvNamespace>;
}

/** CAs with one configuration, in one workerd. */
export interface ClockedCas {
  /** Creates a CA without authorities, whose clock shows this instant. */
  readonly create: (now: Date) => ClockedCa;
  readonly close: () => Promise<void>;
}

/** @param most The number of CAs that can be created. */
export async function startClockedCas(
  variables: Readonly<Record<string, unknown>>,
  most: number,
): Promise<ClockedCas> {
  const names = Array.from({ length: most }, (_, i) => `${i}`);
  const harness = await createEdgeWorker({
    main: "test/worker/runtime/clocked-worker.ts",
    vars: variables as never,
    kv_namespaces: names.map((name) => ({ binding: `AUTHORITIES_${name}`, id: name })),
  });
  await harness.listen();
  return {
    create: (now) => {
      const name = names.shift();
      if (name === undefined) throw new Error(`there are no more than ${most} CAs`);
      return clockedCa(harness, name, now);
    },
    close: () => harness.close(),
  };
}

function clockedCa(harness: TestHarness, name: string, begin: Date): ClockedCa {
  let [now, deployments] = [begin, 0];
  const namespace = async (): Promise<KvNamespace> => {
    const bindings = await harness.getWorker<Record<string, KvNamespace>>().getEnv();
    const binding = bindings[`AUTHORITIES_${name}`];
    if (!binding) throw new Error("no such namespace");
    return binding;
  };
  return {
    now: () => now,
    pass: (seconds) => {
      now = new Date(now.getTime() + 1000 * seconds);
    },
    runCron: async () => {
      const { outcome } = await harness.getWorker().scheduled({ cron: name, scheduledTime: now });
      if (outcome !== "ok") throw new Error(`the cron ends with ${outcome}`);
    },
    fetch: async (path, init = {}) => {
      const headers = { "ca-name": name, "ca-now": now.toISOString(), ...init.headers };
      return (await harness.fetch(path, { ...init, headers } as never)) as unknown as Response;
    },
    deploy: async (values) => {
      const deployment = JSON.stringify({ number: ++deployments, values });
      await (await namespace()).put("deployment", deployment);
    },
    namespace,
  };
}
