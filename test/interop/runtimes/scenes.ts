import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { basename, join } from "node:path";
import { stringify } from "smol-toml";
import { frame, getRoot, preface } from "../../testkit/network/http2-frames.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { launchServer, type ServerProcess } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { casesFor } from "../native-grpc/cases.ts";
import type { Server } from "../native-grpc/clients/client.ts";
import { grpcJsClient } from "../native-grpc/clients/grpc-js.ts";
import { playHandshakes } from "../native-grpc/clients/s-client.ts";
import { obtainCertificates } from "../native-grpc/credentials.ts";
import type { Mesh } from "../native-grpc/mesh.ts";
import { createTally, playCases, type Tally } from "../native-grpc/play.ts";
import { playRotation, rotationLifetimes } from "../native-grpc/rotation.ts";
import type { Scratch } from "../native-grpc/scratch.ts";
import { withTls } from "../native-grpc/servers/servers.ts";
import { verdictOf } from "../native-grpc/verdicts.ts";
import { bucket as bucketName, credential, type Gateway } from "../s3/gateway.ts";
import type { Runtime } from "./installed.ts";

/** A runtime, and what its programs are played with. */
export interface Means {
  readonly runtime: Runtime;
  readonly folder: string;
  readonly kek: string;
  /** A file. */
  readonly passphrase: string;
  readonly bucket: Gateway;
  readonly mesh: Mesh;
  readonly scratch: Scratch;
}

/** The means of one part, with a folder of its own. */
interface Stage extends Means {
  readonly tally: Tally;
}

/** A CA on a store, a gateway in front of it, and the verbs beside it. */
interface Running {
  readonly serve: Server;
  readonly gateway: Server;
  readonly processes: readonly ServerProcess[];
  readonly verb: (...words: readonly string[]) => Promise<string>;
  readonly end: () => Promise<readonly number[]>;
}

/** Plays serve and the gateway on files and on a bucket, then the verbs, what is refused, and strangers. */
export const playRuntime = async (means: Means): Promise<readonly Tally[]> => [
  await playPart(means, "files", playFiles),
  await playPart(means, "s3", (stage) => playOn(stage, "s3", bucketKeys(stage), playStore)),
  await playPart(means, "refusals", playRefusals),
];

/** A part, which resolves with whether a process has crashed. */
type Part = (stage: Stage) => Promise<boolean>;

/**
 * Plays a part, and anew where Deno has crashed, at most twice: it does so now and then in a rotation, which closes
 * connections (denoland/deno#36788).
 */
async function playPart(means: Means, name: string, play: Part): Promise<Tally> {
  const { name: runtime } = means.runtime;
  for (let turn = 1; ; turn++) {
    const folder = join(means.folder, `${name}-${turn}`);
    await mkdir(folder);
    const tally = createTally((line) => console.log(`runtimes: ${runtime}: ${line}`));
    const hasCrashed = await play({ ...means, folder, tally });
    const seconds = Math.round(performance.now() / 1000);
    console.log(`runtimes: ${runtime}: ${name}${hasCrashed ? " crashed" : ""} (${seconds} s)`);
    if (!hasCrashed || runtime !== "deno" || turn === 3) return tally;
  }
}

const filesOf = ({ folder }: Stage): object => ({
  STORE_DIRECTORY: join(folder, "store"),
  PROPAGATION_INTERVAL: "0s",
});

async function playFiles(stage: Stage): Promise<boolean> {
  const files = filesOf(stage);
  if (await playOn(stage, "files", files, playCalls)) return true;
  return playOn(stage, "files, again", { ...files, ...rotationLifetimes.serve }, playRenewals);
}

async function playRefusals(stage: Stage): Promise<boolean> {
  const { tally } = stage;
  const { name } = stage.runtime;
  // Chance decides whether Deno crashes.
  if (name !== "deno") await playStrangers(stage);
  if (name === "node") return false;
  await tally.show("one process alone", oneProcess(stage));
  await tally.show("no Worker's store", noWorker(stage));
  return false;
}

async function playStrangers(stage: Stage): Promise<void> {
  const running = await start(stage, "files", filesOf(stage));
  await stage.tally.show("survives strangers", survivesStrangers(running));
  await running.end();
}

const bucketKeys = ({ bucket, runtime, folder }: Stage): object => ({
  STORE: "s3",
  STORE_BUCKET: bucketName,
  STORE_PREFIX: `${runtime.name}-${basename(folder)}/`,
  PROPAGATION_INTERVAL: "10s",
  S3_ENDPOINT: bucket.origin,
  S3_CA_FILE: bucket.rootsFile,
});

/** Starts the programs, always ends them, and checks their output. @returns Whether one has crashed. */
async function playOn(
  stage: Stage,
  name: string,
  store: object,
  play: (stage: Stage, running: Running) => Promise<void>,
): Promise<boolean> {
  const { tally } = stage;
  const running = await start(stage, name, store);
  await tally.show(
    name,
    shown(() => play(stage, running)),
  );
  const ends = await running.end();
  await tally.show(
    `${name}: SIGTERM ends both`,
    shown(() => assert.deepEqual(ends, [0, 0])),
  );
  const lines = running.processes.flatMap((each) => each.lines);
  const isWrong = (line: string): boolean => /eyJ|BEGIN |PRIVATE KEY|^\s+at /.test(line);
  const found = lines.find(isWrong);
  await tally.show(
    `${name}: logs no secret and no trace`,
    shown(() => assert.equal(found, undefined)),
  );
  const signals = await Promise.all(
    running.processes.map(async (each) => (await each.ended).signal),
  );
  return signals.some((signal) => signal === "SIGSEGV" || signal === "SIGABRT");
}

const missing = { missing: "played by the suite native-grpc" };

/** Every success and refusal, the handshakes, and the verbs beside them. */
async function playCalls(stage: Stage, running: Running): Promise<void> {
  const { mesh, scratch, tally } = stage;
  const judge = verdictOf({ istioClient: missing, zlint: missing, scratch });
  for (const server of [running.serve, running.gateway]) {
    const certificates = await obtainCertificates(server, mesh, scratch);
    const cases = await casesFor(mesh, certificates);
    await playCases(grpcJsClient, server, cases, judge, tally);
    await playHandshakes(server, missing, scratch, tallyOf(stage));
  }
  await playVerbs(stage, running);
}

/** A certificate, and the verbs, by records in a bucket: the calls are those of the files. */
async function playStore(stage: Stage, running: Running): Promise<void> {
  const { mesh, scratch, tally } = stage;
  const judge = verdictOf({ istioClient: missing, zlint: missing, scratch });
  const [success] = await casesFor(mesh, undefined);
  assert(success);
  await playCases(grpcJsClient, running.gateway, [success], judge, tally);
  await playVerbs(stage, running);
}

/** What src/program/runtime.ts says of a runtime; Deno's TLS refuses an old client by another alert. */
const differences: Readonly<Record<Runtime["name"], readonly string[]>> = {
  deno: [
    "no TLS 1.1",
    "no TLS 1.0",
    "no ChaCha20 in TLS 1.3",
    "no ChaCha20 in TLS 1.2",
    "no ticket to resume with",
  ],
  bun: ["no ChaCha20 in TLS 1.3"],
  node: [],
};

/** A tally in which a difference counts as long as there is one, so that a sentence about it is true. */
function tallyOf({ tally, runtime: { name } }: Stage): Tally {
  const until = (fault: string | undefined): string | undefined =>
    fault === undefined ? "is as on Node now: take the difference out of the list" : undefined;
  return {
    ...tally,
    show: (what, shown) =>
      tally.show(what, differences[name].includes(what) ? shown.then(until) : shown),
  };
}

/** Renewals by certificate and by token, through a rotation by the verb. */
async function playRenewals(stage: Stage, running: Running): Promise<void> {
  const { mesh, scratch, tally } = stage;
  const servers = [running.serve, running.gateway];
  const pairs = servers.map((server) => ({ client: grpcJsClient, server, tally }));
  const renewed = playRotation(servers, pairs, mesh, scratch);
  await Promise.all([running.verb("authority", "rotate", "--yes"), renewed]);
}

const shown = async (act: () => unknown): Promise<undefined> => {
  await act();
  return undefined;
};

async function start(stage: Stage, name: string, store: object): Promise<Running> {
  const { runtime, mesh } = stage;
  const folder = join(stage.folder, name);
  await mkdir(folder);
  const file = (each: string): string => join(folder, each);
  const environment = {
    KEK: stage.kek,
    AWS_ACCESS_KEY_ID: credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
    RAMPART_PASSPHRASE: await readFile(stage.passphrase, "utf8"),
  };
  const listen = { LISTEN: "127.0.0.1:0", MONITORING_LISTEN: "127.0.0.1:0" };
  const keys = {
    ...store,
    ...listen,
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    ISSUERS: [mesh.issuerTable],
  };
  await writeFile(file("rampart.toml"), stringify(keys));
  const { command } = runtime;
  const serve = await launchServer("serve", file("rampart.toml"), environment, command);
  await writeFile(file("token"), await mesh.token({ account: mesh.gatewayAccount }));
  const upstream = {
    UPSTREAM: `http://127.0.0.1:${serve.plaintextPort}`,
    TOKEN_FILE: file("token"),
  };
  await writeFile(file("gateway.toml"), stringify({ ...upstream, ...listen }));
  const gateway = await launchServer("gateway", file("gateway.toml"), environment, command);
  const origin = `http://${serve.monitoringAddress}`;
  return {
    serve: await withTls("rampart serve", serve, origin, folder),
    gateway: await withTls("rampart gateway", gateway, origin, folder),
    processes: [serve, gateway],
    verb: (...words) =>
      runWell(command[0] ?? "", [...command.slice(1), ...words, "-c", file("rampart.toml")], {
        environment,
      }),
    end: async () => [await gateway.end(), await serve.end()],
  };
}

/** What an operator types beside a CA that runs; and a file that changes under it. */
async function playVerbs({ tally, folder }: Stage, { verb, processes }: Running): Promise<void> {
  const show = (what: string, act: () => unknown): Promise<void> => tally.show(what, shown(act));
  await show("authority list", async () => {
    assert.equal(JSON.parse(await verb("authority", "list", "--json")).length, 1);
  });
  await show("authority plan, root list, deny add", async () => {
    await verb("authority", "plan");
    await verb("deny", "add", "ns/foo/sa/nobody", "--yes");
    assert.match(await verb("deny", "list"), /ns\/foo\/sa\/nobody/);
  });
  await show("authority export", async () => {
    const file = join(folder, `backup-${Date.now()}.age`);
    await verb("authority", "export", "-o", file);
    assert.match(await readFile(file, "utf8"), /^-----BEGIN AGE ENCRYPTED FILE/);
  });
  await show("doctor", () =>
    verb("doctor", "--json").catch((error: Error) => {
      assert.doesNotMatch(error.message, /\n\s+at /);
    }),
  );
  await show("SIGHUP reads the file again", async () => {
    for (const each of processes) {
      each.send("SIGHUP");
      await until("the file was not read again", async () =>
        each.lines.some((line) => line.includes('"configuration-')),
      );
    }
  });
}

/** How many connections of a stranger a server takes. Deno's crashes at some 260. */
const strangers = 1000;

/** Connections on which a request comes behind the client's own farewell (GOAWAY, RFC 9113 §6.8). */
async function survivesStrangers({ processes: [serve] }: Running): Promise<string | undefined> {
  assert(serve);
  const farewell = frame(7, 0, 0, Buffer.alloc(8));
  const octets = Buffer.concat([preface, farewell, getRoot(1)]);
  for (let i = 0; i < strangers && serve.process.signalCode === null; i++) {
    const socket = connect(serve.plaintextPort, "127.0.0.1", () => socket.write(octets));
    socket.on("error", () => {}).resume();
    const timer = setTimeout(() => socket.destroy(), 10);
    await new Promise((resolve) => socket.once("close", resolve));
    clearTimeout(timer);
  }
  const { signalCode } = serve.process;
  return signalCode === null ? undefined : `${signalCode} ended it`;
}

/** Node shares its port among processes; the other runtimes are refused in a sentence. */
async function oneProcess({ runtime: { command }, folder, kek }: Stage): Promise<undefined> {
  const file = join(folder, "files/rampart.toml");
  const words = ["serve", "-c", file, "--processes", "2"];
  const { exitCode, stderr } = await run(command[0] ?? "", [...command.slice(1), ...words], {
    environment: { KEK: kek },
    timeoutSeconds: 20,
  });
  assert.equal(exitCode, 1, stderr);
  assert.match(stderr, /^rampart: several processes take Node, and this is (?:Deno|Bun)$/m);
  return undefined;
}

async function noWorker({ runtime: { command }, folder }: Stage): Promise<undefined> {
  const own = join(folder, "worker");
  await mkdir(own);
  await writeFile(
    join(own, "wrangler.toml"),
    'name = "a"\nkv_namespaces = [{ binding = "AUTHORITIES", id = "a" }]\n',
  );
  const words = [...command.slice(1), "authority", "list"];
  const { exitCode, stderr } = await run(command[0] ?? "", words, { folder: own });
  assert.equal(exitCode, 1);
  assert.match(
    stderr,
    /^rampart: a Worker's store takes wrangler and Node, and this is (?:Deno|Bun)$/m,
  );
  return undefined;
}
