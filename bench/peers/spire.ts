import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:http2";
import { join } from "node:path";
import { Pkcs10CertificateRequestGenerator } from "@peculiar/x509";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { fromGoRelease } from "../../test/interop/software.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import { runWell } from "../../test/testkit/programs/child-process.ts";
import { answerOf } from "../node/http2-load.ts";
import { connectTo } from "./connections.ts";
import type { MissingPeer, Peer } from "./peer.ts";
import { type PeerProcess, startPeerProcess } from "./peer-process.ts";
import { attestAgent, batchNewX509Svid, chainOfAgent, countX509Svids } from "./spire-api.ts";
import type { Stage } from "./stage.ts";

const name = "SPIRE server";
const version = "v1.13.0";

/** An agent asks for one workload, or for many in one call, as after a rotation. */
const batches = [1, 10];

/** SPIRE's server with one attested agent, which renews the X509-SVIDs of its workloads. */
export async function startSpire(stage: Stage): Promise<readonly (Peer | MissingPeer)[]> {
  const built = await fromGoRelease("github.com/spiffe/spire", version, "cmd/spire-server", {
    seconds: stage.buildSeconds,
  });
  if ("missing" in built) return [{ name, why: built.missing }];
  const folder = join(stage.folder, "spire");
  const [port = 0] = await freePorts(1);
  await mkdir(folder);
  const configuration = join(folder, "server.conf");
  await writeFile(configuration, configurationOf(folder, port));
  const values = ["run", "-config", configuration];
  const server = startPeerProcess({ program: built.program, values, folder });
  const cli = cliOf(built.program, folder);
  const { value: joinToken } = await server.until(() => cli(["token", "generate"]));
  const agent = await attest(port, String(joinToken));
  const entryId = await register(cli, String(joinToken));
  const csr = Pem.parse(stage.workload.csrPem, ["CERTIFICATE REQUEST"]) ?? new Uint8Array();
  return Promise.all(batches.map((size) => peerOf({ server, port, agent, entryId, csr }, size)));
}

interface Attested {
  readonly server: PeerProcess;
  readonly port: number;
  readonly agent: Credential;
  readonly entryId: string;
  readonly csr: Uint8Array;
}

/** An agent's chain and key, PEM. */
interface Credential {
  readonly cert: string;
  readonly key: string;
}

async function peerOf(
  { server, port, agent, entryId, csr }: Attested,
  size: number,
): Promise<Peer> {
  const call = batchNewX509Svid(entryId, csr, size);
  // The server reads its entries anew every few seconds.
  await server.until(async () => {
    const session = openSession(port, agent);
    const count = countX509Svids(await answerOf(session, call).finally(() => session.close()));
    if (count !== size) throw new Error(`issued ${count} of ${size}`);
  });
  const { load, ...others } = await connectTo(server, port, () => call, agent);
  return {
    name,
    version,
    api: `native gRPC over mutual TLS, ${size === 1 ? "one" : size} in a call`,
    rootKey: "EC-P256",
    less: "checks the agent's certificate and SQLite's record of it, no token; no line for a certificate",
    load: (times) => load(Math.ceil(times / size)),
    ...others,
  };
}

const openSession = (port: number, credential: Partial<Credential> = {}) =>
  connect(`https://127.0.0.1:${port}`, { ...credential, rejectUnauthorized: false });

async function attest(port: number, joinToken: string): Promise<Credential> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const request = { keys, signingAlgorithm: algorithm };
  const csr = await Pkcs10CertificateRequestGenerator.create(request);
  const session = openSession(port);
  const call = attestAgent(joinToken, new Uint8Array(csr.rawData));
  const answer = await answerOf(session, call).finally(() => session.close());
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const cert = chainOfAgent(answer).map((der) => Pem.format("CERTIFICATE", der));
  return { cert: cert.join("\n"), key: Pem.format("PRIVATE KEY", pkcs8) };
}

type Cli = (values: readonly string[]) => Promise<Readonly<Record<string, unknown>>>;

const socketOf = (folder: string): string => join(folder, "api.sock");

/** The administrator's commands, over the server's own socket. */
function cliOf(program: string, folder: string): Cli {
  const ending = ["-socketPath", socketOf(folder), "-output", "json"];
  return async (values) => JSON.parse(await runWell(program, [...values, ...ending]));
}

/** @returns The id of the workload's entry. */
async function register(cli: Cli, joinToken: string): Promise<string> {
  const parent = `spiffe://cluster.local/spire/agent/join_token/${joinToken}`;
  const { results } = await cli([
    ...["entry", "create", "-parentID", parent],
    ...["-spiffeID", "spiffe://cluster.local/ns/foo/sa/httpbin"],
    ...["-selector", "k8s:sa:httpbin", "-x509SVIDTTL", "86400"],
  ]);
  const [result] = results as { entry: { id: string } }[];
  if (!result) throw new Error("no entry was made");
  return result.entry.id;
}

/** Without limits of rates, as the other CAs run, since one caller makes all the calls. */
function configurationOf(folder: string, port: number): string {
  return `server {
  bind_address = "127.0.0.1"
  bind_port = "${port}"
  socket_path = "${socketOf(folder)}"
  trust_domain = "cluster.local"
  data_dir = "${folder}"
  log_level = "INFO"
  ca_key_type = "ec-p256"
  ca_ttl = "168h"
  ratelimit {
    attestation = false
    signing = false
  }
}
plugins {
  DataStore "sql" {
    plugin_data {
      database_type = "sqlite3"
      connection_string = "${join(folder, "datastore.sqlite3")}"
    }
  }
  NodeAttestor "join_token" {
    plugin_data {}
  }
  KeyManager "memory" {
    plugin_data {}
  }
}
`;
}
