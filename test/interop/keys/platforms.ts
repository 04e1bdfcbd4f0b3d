import { setImmediate as turn } from "node:timers/promises";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { createKvStore } from "../../../src/worker/kv-store.ts";
import { type ClockedCa, type ClockedCas, startClockedCas } from "../../e2e/clocked-ca.ts";
import { unchangedConfiguration } from "../../testkit/ca/served-ca.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

/** A CA over records that stay, whose configuration and clock a story changes. */
export interface StagedCa extends Pick<ClockedCa, "now" | "fetch" | "deploy"> {
  /** Lets time pass, and the cron run once. @returns Whether it ended well. */
  readonly step: (seconds: number) => Promise<boolean>;
  /** The records, as a verb opens them. */
  readonly store: () => Promise<AuthorityStore>;
  readonly end: () => Promise<void>;
}

/** The Worker in workerd. */
export function onWorkers(cas: ClockedCas): StagedCa {
  const ca = cas.create(new Date());
  return {
    ...ca,
    step: async (seconds) => {
      ca.pass(seconds);
      return ca.runCron().then(
        () => true,
        () => false,
      );
    },
    store: async () => createKvStore(await ca.namespace()),
    end: async () => {},
  };
}

export const startWorkers = (most: number): Promise<ClockedCas> => startClockedCas({}, most);

/** The pause between two rotations: an eighth of the longest leaf, which no other pause of the server is. */
export const rotationPause = (leafSeconds: number): number => 1000 * (leafSeconds / 8);

/** `rampart serve`; a deployment restarts it. */
export async function onServe(leafSeconds: number): Promise<StagedCa> {
  const storeDirectory = await lastingFolder();
  const time = createVirtualTime(new Date());
  const log = createEventRecorder();
  let server: Awaited<ReturnType<typeof serve>> | undefined;
  const rotated = async (): Promise<void> => {
    while (!time.pauses().includes(rotationPause(leafSeconds))) await turn();
  };
  const end = async (): Promise<void> => {
    await server?.close(1000);
  };
  return {
    now: time.clock,
    deploy: async (values) => {
      await end();
      const complete = {
        STORE_DIRECTORY: storeDirectory,
        LISTEN: "127.0.0.1:0",
        MONITORING_LISTEN: "127.0.0.1:0",
        PLAINTEXT_LISTEN: "127.0.0.1:0",
        CALLER_QUOTA: 1_000_000,
        ...values,
      };
      server = await serve(ServeConfiguration.parse(complete), {
        log,
        clock: time.clock,
        pause: time.pause,
        random: () => 0,
        configurationStatus: () => unchangedConfiguration,
      });
      await rotated();
    },
    fetch: (path, init) => {
      const { port = 0 } = server?.plaintextAddress ?? {};
      return fetch(`http://127.0.0.1:${port}${path}`, init);
    },
    step: async (seconds) => {
      const seen = log.operations.length;
      time.pass(seconds);
      await rotated();
      return !log.operations.slice(seen).some(({ event }) => event === "rotation-fault");
    },
    store: () => FileStore.open(storeDirectory),
    end,
  };
}
