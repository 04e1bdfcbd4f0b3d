import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { stringify } from "smol-toml";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { withoutBuilds } from "../../testkit/programs/environment.ts";
import { launchServer, sourceProgram } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { caller, casesFor } from "../native-grpc/cases.ts";
import type { Answer, Call, Server } from "../native-grpc/clients/client.ts";
import type { Tools } from "../native-grpc/clients/clients.ts";
import { connectByCurl, grpcWebByCurl } from "../native-grpc/clients/curl.ts";
import { grpcJsClient } from "../native-grpc/clients/grpc-js.ts";
import { obtainCertificates, pilotAgentRequest } from "../native-grpc/credentials.ts";
import type { Mesh } from "../native-grpc/mesh.ts";
import { playCases, type Tally } from "../native-grpc/play.ts";
import type { Scratch } from "../native-grpc/scratch.ts";
import { verdictOf } from "../native-grpc/verdicts.ts";
import type { Installation } from "../package/installation.ts";
import { credential } from "../s3/gateway.ts";
import { LogAuditor } from "../s3/log-auditor.ts";
import { type LambdaFunction, scheduledEvent, startFunction } from "./instances.ts";
import type { Deployment } from "./tutorial.ts";

interface Stage {
  readonly folder: string;
  readonly installation: Installation;
  readonly deployment: Deployment;
  readonly mesh: Mesh;
  readonly scratch: Scratch;
  readonly tools: Tools;
  readonly tally: Tally;
}

export const servedName = "istiod.istio-system.svc";
const kills = 3;
const shards = 1;
const readerToken = "a-token-of-a-reader-of-the-issuance-log";

/** The whole life of a function: its first authority, certificates, its log, a gateway, and what fails. */
export async function playLambda(stage: Stage): Promise<void> {
  const { tally, deployment } = stage;
  const { code } = deployment;
  const environment = {
    ...deployment.environment,
    LOG_READERS: readerToken,
    AWS_ACCESS_KEY_ID: credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
  };
  const lambda = await startFunction(code, environment);
  const show = (what: string, act: () => Promise<unknown>): Promise<void> =>
    tally.show(
      what,
      act().then(() => undefined),
    );
  try {
    await show("a schedule founds the CA", () => founds(lambda));
    await show("the tutorial ends as it is written", () => endsAsWritten(lambda, deployment));
    await playByUrl(lambda, stage);
    await show("any number of instances append to one log", () => appends(lambda, stage));
    await show("instances that are killed lose no entry", () => survives(lambda, stage));
    await playGateway(lambda, stage);
    await show("acceptance finds nothing wrong", () => isAccepted(lambda, stage));
    await show("an event that is none fails by itself", () => refusesEvents(lambda));
    await show("the verbs know the same CA", () => knowsByVerbs(stage, code, environment));
    await show("says what the platform cannot do, no secret and no trace", () => says(lambda));
  } finally {
    await lambda.end();
  }
  await show("a faulty configuration answers, and says why", () => misconfigured(stage, code));
}

const cron = async (lambda: LambdaFunction): Promise<void> =>
  assert.deepEqual(await lambda.invoke(scheduledEvent), { answer: null });

async function founds(lambda: LambdaFunction): Promise<void> {
  await cron(lambda);
  await until("nothing signs", async () => (await fetch(`${lambda.origin}/readyz`)).status === 200);
}

async function endsAsWritten(lambda: LambdaFunction, { typeRest }: Deployment): Promise<void> {
  const [asked, listed, ...more] = await typeRest(lambda.origin);
  assert.match(asked ?? "", /^\{"ready":true,.*-----BEGIN CERTIFICATE-----/s);
  assert.match(listed ?? "", / signing, now /);
  assert.deepEqual(more, []);
}

function serverOf({ origin }: LambdaFunction): Server {
  const ask = (path: string): Promise<Response> => fetch(`${origin}${path}`);
  return {
    name: "Worker",
    address: new URL(origin).host,
    tls: undefined,
    bundleUrl: `${origin}/bundle.json`,
    bundle: async () => (await ask("/bundle.pem")).text(),
    signer: async () => ((await (await ask("/readyz")).json()) as { authority: string }).authority,
  };
}

/** Connect and gRPC-Web by a URL without TLS of its own, so with tokens. */
async function playByUrl(lambda: LambdaFunction, stage: Stage): Promise<void> {
  const { mesh, scratch, tools, tally } = stage;
  const cases = await casesFor(mesh, undefined, scratch);
  const judge = verdictOf({ ...tools, scratch });
  for (const client of [connectByCurl(scratch), grpcWebByCurl(scratch)])
    await playCases(client, serverOf(lambda), cases, judge, tally);
}

/** Many calls at once. */
async function ask(
  lambda: LambdaFunction,
  { mesh, scratch }: Stage,
  count: number,
): Promise<readonly Answer[]> {
  const client = grpcWebByCurl(scratch);
  const token = await mesh.token(caller);
  const call = async (): Promise<Call> => {
    const { csr } = await pilotAgentRequest(caller.spiffeId);
    return { csr, validitySeconds: 3600, token };
  };
  const calls = await Promise.all(Array.from({ length: count }, call));
  return Promise.all(calls.map((each) => client.createCertificate(serverOf(lambda), each)));
}

/** Many calls at once. @returns The outcome of each. */
async function issue(
  lambda: LambdaFunction,
  stage: Stage,
  count: number,
): Promise<readonly string[]> {
  const answers = await ask(lambda, stage, count);
  return answers.map((each) => ("message" in each ? `${each.code} ${each.message}` : each.code));
}

/** What `rampart acceptance` says of the function, with the log and a storm, while the schedule runs. */
async function isAccepted(lambda: LambdaFunction, { mesh, folder }: Stage): Promise<void> {
  const token = join(folder, "acceptance-token");
  await writeFile(token, await mesh.token(caller));
  const where = ["--url", lambda.origin, "--for", "lambda", "--token-file", token, "--json"];
  const how = ["--wait", "5s", "--calls", "40", "--yes"];
  let isPlaying = true;
  const schedule = async (): Promise<void> => {
    while (isPlaying) {
      await cron(lambda);
      await setTimeout(1000);
    }
  };
  const playing = run(process.execPath, [sourceProgram, "acceptance", ...where, ...how], {
    environment: withoutBuilds({ RAMPART_LOG_TOKEN: readerToken }),
    timeoutSeconds: 300,
  }).finally(() => {
    isPlaying = false;
  });
  const [{ stdout }] = await Promise.all([playing, schedule()]);
  const { rows } = JSON.parse(stdout) as {
    rows: readonly { name: string; verdict: string; measured: string }[];
  };
  const wrong = rows.filter(({ verdict }) => verdict !== "good" && verdict !== "skipped");
  assert.deepEqual(wrong, []);
}

/** The serial numbers in the published log, read and verified as any reader does. */
async function logged({ origin }: LambdaFunction): Promise<readonly string[]> {
  const headers = { authorization: `Bearer ${readerToken}` };
  const ask = (path: string): Promise<Response> => fetch(`${origin}/log/${path}`, { headers });
  const [{ verifierKey = "" } = {}] = (await (await ask("logs.json")).json()) as {
    verifierKey?: string;
  }[];
  const read = async (path: string) => {
    const response = await ask(`0/${path}`);
    return response.status === 200 ? new Uint8Array(await response.arrayBuffer()) : undefined;
  };
  const text = new TextDecoder().decode(await read("checkpoint"));
  const checkpoint = await openCheckpointText(text, VerifierKey.parse(verifierKey));
  const serials: string[] = [];
  await ObjectReader.extend(Frontier.empty(), checkpoint, read, (_, octets) => {
    const entry = LogEntry.parse(octets);
    if (entry.kind === "certificate") serials.push(JSON.stringify(entry));
  });
  return serials;
}

/** The audit events of issued certificates so far. */
const issuedIn = (lambda: LambdaFunction): readonly { logIndex: number }[] =>
  lambda
    .lines()
    .filter((line) => line.includes('"create-certificate"') && line.includes('"issued"'))
    .map((line) => JSON.parse(line.slice(line.indexOf("{"))));

async function appends(lambda: LambdaFunction, stage: Stage): Promise<void> {
  const count = 24;
  const begun = performance.now();
  const outcomes = await issue(lambda, stage, count);
  assert.deepEqual(outcomes, Array(count).fill("OK"));
  console.log(
    `lambda: ${count} certificates by ${lambda.instances()} instances in ${Math.round(performance.now() - begun)} ms`,
  );
  await requireAllLogged(lambda);
}

async function requireAllLogged(lambda: LambdaFunction): Promise<void> {
  await cron(lambda);
  const entries = await logged(lambda);
  const indexes = issuedIn(lambda).map(({ logIndex }) => logIndex);
  assert(indexes.length > 0, "no certificate was issued");
  const twice = indexes.filter((index, i) => indexes.indexOf(index) !== i);
  assert.deepEqual(twice, [], "an index was given twice");
  assert(entries.length >= indexes.length, `${entries.length} entries, ${indexes.length} issued`);
}

/** Kills every instance as one has just logged, while the others are at work. */
async function survives(lambda: LambdaFunction, stage: Stage): Promise<void> {
  const url = `${lambda.origin}/log`;
  const auditor = await LogAuditor.build(stage.folder, readerToken);
  const answered = new Set<string>();
  const keep = (answers: readonly Answer[]): void => {
    for (const each of answers)
      if ("certChain" in each)
        answered.add(new X509Certificate(each.certChain[0] ?? "").raw.toString("base64"));
  };
  const look = (): Promise<void> => auditor.keepCheckpoints(url, shards);
  for (let kill = 1; kill <= kills; kill++) {
    const before = issuedIn(lambda).length;
    const calls = ask(lambda, stage, 12);
    const published = lambda.invoke(scheduledEvent);
    await until("nothing is logged", () => issuedIn(lambda).length >= before + kill);
    await lambda.kill();
    keep(await calls);
    await published;
    await look();
  }
  assert.deepEqual(await issue(lambda, stage, 4), Array(4).fill("OK"));
  const counted = await auditor.untilLogged(url, shards, answered, () => cron(lambda).then(look));
  await requireAllLogged(lambda);
  console.log(
    `lambda: ${kills} kills, ${answered.size} answered, ${counted}; ${auditor.checkpoints} checkpoints verified by x/mod`,
  );
}

/** Native gRPC, and renewal by client certificate, through a gateway. */
async function playGateway(lambda: LambdaFunction, stage: Stage): Promise<void> {
  const { folder, mesh, scratch, tools, tally } = stage;
  const file = (name: string): string => join(folder, name);
  await writeFile(file("gateway-token"), await mesh.token({ account: mesh.gatewayAccount }));
  const keys = {
    UPSTREAM: lambda.origin,
    TOKEN_FILE: file("gateway-token"),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
  };
  await writeFile(file("gateway.toml"), stringify(keys));
  const gateway = await launchServer("gateway", file("gateway.toml"));
  try {
    const { bundle, bundleUrl, signer } = serverOf(lambda);
    await writeFile(file("roots.pem"), await bundle());
    const tls = { serverName: servedName, rootsFile: file("roots.pem") };
    const { address } = gateway;
    const server: Server = { name: "rampart gateway", address, tls, bundle, bundleUrl, signer };
    const certificates = await obtainCertificates(server, mesh, scratch);
    const cases = await casesFor(mesh, certificates, scratch);
    await playCases(grpcJsClient, server, cases, verdictOf({ ...tools, scratch }), tally);
  } finally {
    await gateway.end();
  }
}

async function refusesEvents(lambda: LambdaFunction): Promise<void> {
  const outcome = await lambda.invoke({ httpMethod: "GET", path: "/bundle.pem" });
  assert.match(JSON.stringify(outcome), /takes scheduled events, and requests in payload format 2/);
  assert.equal((await fetch(`${lambda.origin}/bundle.pem`)).status, 200);
}

async function knowsByVerbs(
  { installation }: Stage,
  code: string,
  environment: NodeJS.ProcessEnv,
): Promise<void> {
  const words = ["authority", "list", "--json", "-c", join(code, "rampart.toml")];
  const listed = JSON.parse(await runWell(installation.program, words, { environment }));
  assert.equal(listed.length, 1);
  const doctor = ["doctor", "--offline", "--json", "-c", join(code, "rampart.toml")];
  const { stdout } = await run(installation.program, doctor, { environment });
  assert.match(stdout, /Lambda has no trailers/);
}

async function says(lambda: LambdaFunction): Promise<void> {
  const text = lambda.lines().join("\n");
  for (const each of ["no client certificate", "no trailers", "between two requests"])
    assert(text.includes(`Lambda`) && text.includes(each), each);
  assert.doesNotMatch(text, /eyJ|BEGIN |PRIVATE KEY|^\s+at /m);
}

async function misconfigured({ folder }: Stage, code: string): Promise<void> {
  const other = join(folder, "faulty");
  await mkdir(other);
  await cp(code, other, { recursive: true, verbatimSymlinks: true });
  await writeFile(join(other, "rampart.toml"), 'STORE_DIRECTORY = "/tmp/a"\nISSUERS = []\n');
  const lambda = await startFunction(other, {});
  try {
    assert.equal((await fetch(`${lambda.origin}/readyz`)).status, 503);
    assert.match(lambda.lines().join("\n"), /configuration-fault/);
    assert("errorMessage" in (await lambda.invoke(scheduledEvent)));
  } finally {
    await lambda.end();
  }
}
