import { createServer, type ServerResponse } from "node:http";
import { memoryMebibytes } from "../../dev/package/deployed-program.ts";
import { pause } from "../../src/foundation/pause.ts";
import { listenOnLoopback } from "../../test/testkit/network/loopback.ts";
import { childProcesses } from "../measurement/process-cpu.ts";
import type { Row } from "../measurement/report.ts";
import { createCluster, createWorkload } from "../workload.ts";
import { type Edge, startEdge } from "./edge.ts";
import { inspectHeap } from "./isolate-heap.ts";

const issuerCount = 240;
const roundsOfHalf = 1;

/** Longer than the Worker waits after a fetch that failed. */
const betweenRoundsMilliseconds = 5_500;

/** An allowance for code that V8 compiles meanwhile; chosen, not measured. */
const noiseMebibytes = 1;

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

type HostileAnswer = (response: ServerResponse) => void;

const modulus = Buffer.alloc(512, 0xa5).toString("base64url");
const rsaKeys = (count: number, padding = "") =>
  JSON.stringify({
    keys: Array.from({ length: count }, (_, i) => ({
      kty: "RSA",
      kid: `${i}`.padStart(256, "k"),
      n: modulus,
      e: "AQAB",
      padding,
    })),
  });
const largest = rsaKeys(32, "p".repeat(6_800));
const tooManyKeys = rsaKeys(300);
const chunk = Buffer.alloc(64 * 1024, "[");

/** The kinds of answers, in turn: an issuer keeps to one. */
const hostileAnswers: readonly HostileAnswer[] = [
  (response) => response.end(largest),
  (response) => response.end(tooManyKeys),
  (response) => response.end("[".repeat(250_000)),
  (response) => response.end(`"${"x".repeat(255_000)}"`),
  (response) => void response.writeHead(500).end("x".repeat(1_000_000)),
  function neverEnding(response) {
    if (response.destroyed) return;
    if (response.write(chunk)) setImmediate(neverEnding, response);
    else response.once("drain", () => neverEnding(response));
  },
  function drip(response) {
    if (response.destroyed) return;
    response.write("[");
    setTimeout(drip, 5, response);
  },
  () => {},
];

/** The isolate's live heap, and workerd's memory, while issuers answer the Worker as badly as they can. */
export async function hostileIssuerRows(): Promise<Row[]> {
  const server = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    hostileAnswers[Number(request.url?.slice(1)) % hostileAnswers.length]?.(response);
  });
  const { host, close } = await listenOnLoopback(server);
  const cluster = await createCluster("https://hostile.example", "ES256");
  const clusters = Array.from({ length: issuerCount }, (_, i) => ({
    issuer: `https://hostile-${i}.example`,
    jwks_uri: `http://${host}/${i}`,
  }));
  const edge = await startEdge({ issuers: clusters, hasInspector: true });
  const [pid = 0] = childProcesses(process.pid, "workerd");
  try {
    await edge.send("/bench/first-authority", {}, "");
    const heap = await inspectHeap(await edge.inspectorUrl(), edge.storeReads);
    const { message } = await createWorkload(cluster);
    const tokens = await Promise.all(
      clusters.map(async ({ issuer }) => (await createCluster(issuer, "ES256")).mintToken("k")),
    );
    const before = { heap: await heap.liveMebibytes(), process: memoryMebibytes(pid, "VmRSS") };
    const calls = roundsOfHalf * issuerCount;
    await playRounds(edge, tokens, message);
    const half = { heap: await heap.liveMebibytes(), process: memoryMebibytes(pid, "VmRSS") };
    await playRounds(edge, tokens, message);
    const whole = { heap: await heap.liveMebibytes(), process: memoryMebibytes(pid, "VmRSS") };
    heap.close();
    return [
      { name: "live heap before hostile issuers", value: before.heap, unit: "MiB" },
      { name: "workerd before hostile issuers", value: before.process, unit: "MiB" },
      { name: `workerd after ${calls} calls`, value: half.process, unit: "MiB" },
      { name: `workerd after ${2 * calls} calls`, value: whole.process, unit: "MiB" },
      {
        name: `live heap after ${2 * calls} calls for hostile issuers`,
        value: whole.heap,
        unit: "MiB",
        budget: 48,
      },
      {
        name: "of which grown in their second half",
        value: whole.heap - half.heap,
        unit: "MiB",
        budget: noiseMebibytes,
      },
    ];
  } finally {
    await edge.close();
    await close();
  }
}

/** Every token in each round, all at once; each leads to one fetch. */
async function playRounds(
  edge: Edge,
  tokens: readonly string[],
  message: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const url = new URL(path, edge.url);
  for (let round = 0; round < roundsOfHalf; round++) {
    const calls = tokens.map(async (token) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/proto" };
      const response = await fetch(url, { method: "POST", headers, body: message });
      await response.arrayBuffer();
      if (response.status < 400) throw new Error("a token of a hostile issuer was accepted");
    });
    await Promise.all(calls);
    await pause(betweenRoundsMilliseconds);
  }
}
