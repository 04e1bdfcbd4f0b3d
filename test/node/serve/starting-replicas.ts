import { expect, onTestFinished } from "vitest";
import { serve } from "../../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

/** `rampart serve` in this process, until the test ends. */
interface Replica {
  readonly log: EventRecorder;
  /** What it answers on its port for monitoring. */
  readonly text: (path: string) => Promise<string>;
}

/** Starts a replica on the store of these keys with each call. It rotates every second, and has no certificate of its own yet. */
export function startingReplicas(store: object): () => Promise<Replica> {
  const configuration = ServeConfiguration.parse({
    ...store,
    ISSUERS: [{ issuer: "https://a.test" }],
    KEK: randomKek(),
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "1h",
    MAX_WORKLOAD_CERT_TTL: "8s",
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
  });
  return async () => {
    const log = createEventRecorder();
    const server = await serve(configuration, { log, clock: () => new Date() });
    server.address.catch(() => {});
    onTestFinished(() => server.close(0));
    const { port } = server.monitoringAddress;
    const text = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
    return { log, text };
  };
}

/** Waits until replicas publish one bundle. @returns How many authorities they have minted together. */
export async function mintedTogether(replicas: readonly Replica[]): Promise<number> {
  await eventually(async () => {
    const bundles = await Promise.all(replicas.map(({ text }) => text("/bundle.pem")));
    expect(bundles[0]).toContain("BEGIN CERTIFICATE");
    expect(new Set(bundles).size).toBe(1);
  });
  const operations = replicas.flatMap(({ log }) => log.operations);
  return operations.filter(({ event }) => event === "authority-minted").length;
}
