import { join } from "node:path";
import { type MatrixRow, matrix, type ServerName } from "../../pages/compatibility-matrix.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";
import { type Case, caller, casesFor } from "./cases.ts";
import type { Server } from "./clients/client.ts";
import { createClients, type Found, installTools, type Tools } from "./clients/clients.ts";
import { playHandshakes } from "./clients/s-client.ts";
import { obtainCertificates } from "./credentials.ts";
import { type Mesh, startMesh } from "./mesh.ts";
import { createTally, faultOf, playCases, type Tally } from "./play.ts";
import { type Pair, playRotation, rotationLifetimes } from "./rotation.ts";
import { createScratch, type Scratch } from "./scratch.ts";
import { type Lifetimes, type Servers, startServers } from "./servers/servers.ts";
import { type Verdict, verdictOf } from "./verdicts.ts";

/** A cell of the matrix, with its results so far. */
interface Cell {
  readonly key: keyof typeof matrix;
  readonly server: ServerName;
  readonly tally: Tally;
  readonly missing?: string;
}

type Clients = Awaited<ReturnType<typeof createClients>>;

interface Stage {
  readonly mesh: Mesh;
  readonly tools: Tools;
  readonly clients: Clients;
  readonly cells: readonly Cell[];
  readonly scratch: Scratch;
}

const say = (words: string): void => console.log(`native-grpc: ${words}`);

async function play(folder: string): Promise<Outcome[]> {
  say("installing and building what it calls with");
  const tools = await installTools();
  const scratch = await createScratch();
  const clients = await createClients(tools, scratch);
  const cells = createCells({ ...clients, sClient: tools.openssl });
  // OpenSSL makes half of the CSRs and gives every verdict, so nothing works without it.
  if ("missing" in tools.openssl) return outcomesOf(cells, tools.openssl.missing);
  const mesh = await startMesh(folder);
  const stage = { mesh, tools, clients, cells, scratch };
  try {
    say("starting serve, and a gateway in front of workerd");
    await withServers(join(folder, "long"), mesh, { serve: {}, worker: {} }, (servers) =>
      playEverything(servers, stage),
    );
    say("starting them again, with lives so short that authorities rotate");
    await withServers(join(folder, "short"), mesh, rotationLifetimes, (servers) =>
      playRotations(servers, stage),
    );
    return [...outcomesOf(cells), ...judgesOf(tools)];
  } finally {
    await mesh.end();
  }
}

function createCells(clients: Readonly<Record<keyof typeof matrix, object>>): Cell[] {
  return (Object.keys(matrix) as (keyof typeof matrix)[]).flatMap((key) => {
    const { client, servers }: MatrixRow = matrix[key];
    return servers.map((server): Cell => {
      const tally = createTally((line) => say(`${client}, ${server}: ${line}`));
      const found = clients[key];
      return { key, server, tally, ...("missing" in found && { missing: String(found.missing) }) };
    });
  });
}

/** Starts the servers, and always ends them. */
async function withServers(
  folder: string,
  mesh: Mesh,
  lifetimes: Lifetimes,
  act: (servers: Servers) => Promise<void>,
): Promise<void> {
  const servers = await startServers(folder, mesh, lifetimes);
  await act(servers).finally(servers.end);
}

/** Plays the successes, all refusals, and the handshakes. */
async function playEverything(servers: Servers, stage: Stage): Promise<void> {
  const { mesh, tools, clients, cells, scratch } = stage;
  const judge = verdictOf({ ...tools, scratch });
  for (const server of [servers.serve, servers.gateway, servers.worker]) {
    const certificates = server.tls && (await obtainCertificates(server, mesh, scratch));
    const cases = await casesFor(mesh, certificates);
    for (const cell of cells.filter((cell) => cell.server === server.name)) {
      if (cell.missing !== undefined) continue;
      say(`${matrix[cell.key].client}, ${server.name}`);
      if (cell.key === "sClient") await playHandshakes(server, tools.zlint, scratch, cell.tally);
      else await playClient(clients[cell.key], server, cases, judge, cell.tally);
    }
  }
}

async function playClient(
  client: Found,
  server: Server,
  cases: readonly Case[],
  judge: Verdict,
  tally: Tally,
): Promise<void> {
  if ("missing" in client) return;
  await playCases(client, server, cases, judge, tally);
  if (!client.createRequest) return;
  const { spiffeId } = caller;
  const { csr, keyPem } = await client.createRequest(spiffeId);
  const call = { ...(cases[0]?.call ?? { validitySeconds: 0 }), csr };
  const answer = client.createCertificate(server, call);
  await tally.show("its own CSR", faultOf(answer, { spiffeId, keyPem }, judge));
}

async function playRotations(
  servers: Servers,
  { mesh, clients, cells, scratch }: Stage,
): Promise<void> {
  const native = [servers.serve, servers.gateway];
  const pairs = cells.flatMap(({ key, server: name, tally }): Pair[] => {
    const server = native.find((one) => one.name === name);
    const client = key === "sClient" ? undefined : clients[key];
    return server && client && !("missing" in client) ? [{ client, server, tally }] : [];
  });
  await servers.rotate();
  await playRotation(native, pairs, mesh, scratch);
}

function outcomesOf(cells: readonly Cell[], missingAll?: string): Outcome[] {
  return cells.map(({ key, server, tally: { passed, faults }, missing = missingAll }) => ({
    client: matrix[key].client.replaceAll("`", ""),
    server,
    passed: passed(),
    faults,
    ...(missing !== undefined && { missing }),
  }));
}

/** The outcomes of the judges that could not run. */
function judgesOf({ zlint, istioClient }: Tools): Outcome[] {
  const judges = { zlint, "Go's verifier": istioClient };
  return Object.entries(judges).flatMap(([client, tool]) =>
    "missing" in tool
      ? [{ client, server: "every certificate", passed: 0, faults: [], missing: tool.missing }]
      : [],
  );
}

// The exit ends the started processes, which a signal alone would leave running.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const folder = await lastingFolder();
report(await play(folder));
process.exit();
