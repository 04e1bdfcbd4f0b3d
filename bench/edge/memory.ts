import { startKeyServer } from "../key-server.ts";
import { everyToken } from "../loads.ts";
import type { Row } from "../measurement/report.ts";
import { createCluster, createWorkload } from "../workload.ts";
import { startEdge } from "./edge.ts";
import { inspectHeap } from "./isolate-heap.ts";

const clusterCount = 1000;
const requestCount = 100_000;

/** An allowance for code that V8 compiles meanwhile; chosen, not measured. */
const noiseMebibytes = 1;

/** The live heap of the Worker's isolate after many requests of many clusters, each with its own key. */
export async function memoryRows(): Promise<Row[]> {
  const clusters = await Promise.all(
    Array.from({ length: clusterCount }, (_, i) =>
      createCluster(`https://cluster-${i}.example`, "ES256"),
    ),
  );
  const keyServer = await startKeyServer(clusters);
  const issuers = clusters.map((cluster) => ({
    issuer: cluster.issuer,
    jwks_uri: keyServer.urlOf(cluster),
  }));
  const edge = await startEdge({ issuers, hasInspector: true });
  try {
    await edge.send("/bench/first-authority", {}, "");
    const heap = await inspectHeap(await edge.inspectorUrl(), edge.storeReads);
    const workload = await createWorkload(await createCluster("https://any.example", "ES256"));
    const tokens = await Promise.all(clusters.map((cluster) => cluster.mintToken("bench")));
    const load = everyToken(edge, tokens, workload);
    await load(requestCount / 2);
    const half = await heap.liveMebibytes();
    await load(requestCount / 2);
    const whole = await heap.liveMebibytes();
    heap.close();
    const of = `${requestCount} requests of ${clusterCount} issuers`;
    return [
      { name: `live heap after ${of}`, value: whole, unit: "MiB", budget: 48 },
      {
        name: "of which grown in their second half",
        value: whole - half,
        unit: "MiB",
        budget: noiseMebibytes,
      },
    ];
  } finally {
    await edge.close();
    keyServer.close();
  }
}
