import { Agent, createServer, request } from "node:http";
import { parseArgs } from "node:util";
import { create, toBinary } from "@bufbuild/protobuf";
import { IstioCertificateRequestSchema } from "../../src/gen/istio/v1/auth/ca_pb.ts";
import { createWorkloadKey } from "../../test/testkit/callers/workload-key.ts";
import { listenOnLoopback } from "../../test/testkit/network/loopback.ts";
import { optionsOf, wholeNumber } from "../../test/testkit/programs/options.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { startEdge } from "../edge/edge.ts";
import { startProcess } from "../node/process-under-test.ts";
import { serveValues } from "../node/serve-values.ts";
import { type Attempt, type Pair, pairsOf } from "./attempts.ts";
import { createTenantCluster } from "./clusters.ts";
import { compare } from "./statistics.ts";

const usage = "npm run bench:isolation -- [times]    requests of each kind (3000)";
const times = optionsOf(usage, (args) => {
  const { positionals } = parseArgs({ args, allowPositionals: true });
  return wholeNumber("times", positionals[0] ?? "3000");
});
const warmUpTimes = 1500;

/** A smaller difference is no verdict even beyond chance, because other processes share the machine. */
const minimumDifference = 0.05;

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

/** Sends requests one after the other over one connection, as an attacker with a timer would. */
type Send = (attempt: Attempt) => Promise<number>;

function sendTo(origin: string, csr: string): Send & { readonly end: () => void } {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send: Send = ({ token, headers = {}, metadata }) =>
    new Promise((resolve, reject) => {
      const message = { csr, validityDuration: 3600n, ...(metadata && { metadata }) };
      const body = toBinary(
        IstioCertificateRequestSchema,
        create(IstioCertificateRequestSchema, message),
      );
      const all = {
        authorization: `Bearer ${token}`,
        "content-type": "application/proto",
        "content-length": body.length,
        ...headers,
      };
      const begun = performance.now();
      const options = { agent, method: "POST", headers: all };
      const outgoing = request(new URL(path, origin), options, (answer) => {
        if ((answer.statusCode ?? 0) < 400)
          reject(new Error("a request was answered with a certificate that must be refused"));
        answer.resume().on("end", () => resolve(performance.now() - begun));
      });
      outgoing.on("error", reject).end(body);
    });
  return Object.assign(send, { end: () => agent.destroy() });
}

/** Sends both kinds in every round, in random order, so that a transient load slows both. */
async function measure(send: Send, { first, second }: Pair, rounds: number) {
  const taken: [number[], number[]] = [[], []];
  for (let i = 0; i < rounds; i++) {
    const isSecondFirst = Math.random() < 0.5;
    for (const which of isSecondFirst ? ([1, 0] as const) : ([0, 1] as const)) {
      const attempt = (which === 0 ? first : second)[i % first.length];
      if (attempt) taken[which].push(await send(attempt));
    }
  }
  return compare(...taken);
}

async function printTable(where: string, origin: string, csr: string, pairs: readonly Pair[]) {
  const send = sendTo(origin, csr);
  console.log(`\n${where}, ${times} of each kind\n`);
  console.log(`${"configured, or not".padEnd(40)} slower  chance  µs`);
  for (const pair of pairs) await measure(send, pair, warmUpTimes / pairs.length);
  for (const pair of pairs) {
    const { slower, chance, difference } = await measure(send, pair, times);
    const shows = Math.abs(slower - 0.5) > Math.max(chance, minimumDifference);
    const verdict = shows ? `TELLS${pair.known ? `: ${pair.known}` : ""}` : "";
    const cells = [slower.toFixed(3), `±${chance.toFixed(3)}`, difference.toFixed(0).padStart(4)];
    console.log(`${pair.name.padEnd(40)} ${cells.join("  ")}  ${verdict}`.trimEnd());
  }
  send.end();
}

/** An API server that authenticates no token. */
function startApiServer(): ReturnType<typeof listenOnLoopback> {
  const server = createServer((incoming, response) => {
    incoming.resume().on("end", () => {
      const review = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", status: {} };
      response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify(review));
    });
  });
  return listenOnLoopback(server);
}

const api = await startApiServer();
const access = (review: string) => ({
  kubernetes: { server: `http://${api.host}`, credential: "CLUSTER_CREDENTIAL_R", review },
});
const [a, b, r, v] = await Promise.all([
  createTenantCluster("a"),
  createTenantCluster("b"),
  createTenantCluster("r", access("instead-of-keys")),
  createTenantCluster("v", access("before-keys")),
]);
const issuers = [a, b, r, v].map(({ table }) => table);
const { csrPem } = await createWorkloadKey("spiffe://cluster.local/ns/foo/sa/httpbin");
const pairs = await pairsOf(a.mint);
const folder = await lastingFolder();
const child = startProcess();
try {
  const { plaintextPort } = await child.tell({
    act: "serve",
    values: {
      ...serveValues(folder),
      PROPAGATION_INTERVAL: "1s",
      CLUSTER_CREDENTIAL_R: "credential",
      ISSUERS: issuers,
    },
  });
  await printTable("rampart serve", `http://127.0.0.1:${plaintextPort}`, csrPem, pairs);
} finally {
  child.end();
}
const edge = await startEdge({ issuers, bindings: { CLUSTER_CREDENTIAL_R: "credential" } });
try {
  await edge.send("/bench/first-authority", {}, "");
  await printTable("workerd", edge.url.origin, csrPem, pairs);
} finally {
  await edge.close();
  await api.close();
}
