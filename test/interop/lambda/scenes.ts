import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { caller, casesFor } from "../native-grpc/cases.ts";
import type { Answer, Call } from "../native-grpc/clients/client.ts";
import type { Tools } from "../native-grpc/clients/clients.ts";
import { connectByCurl } from "../native-grpc/clients/curl.ts";
import { pilotAgentRequest } from "../native-grpc/credentials.ts";
import type { Mesh } from "../native-grpc/mesh.ts";
import { playCases, type Tally } from "../native-grpc/play.ts";
import type { Scratch } from "../native-grpc/scratch.ts";
import { publishedAt } from "../native-grpc/servers/servers.ts";
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

const kills = 3;
const shards = 1;
const readerToken = "a-token-of-a-reader-of-the-issuance-log";

/** The whole life of a function: its first authority, certificates, its log, and the verbs. */
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
    await show("instances that are killed lose no entry", () => survives(lambda, stage));
    await show("the verbs know the same CA", () => knowsByVerbs(stage, code, environment));
  } finally {
    await lambda.end();
  }
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

/** Connect by a URL without TLS of its own, so with tokens. */
async function playByUrl(lambda: LambdaFunction, stage: Stage): Promise<void> {
  const { mesh, scratch, tools, tally } = stage;
  const cases = await casesFor(mesh, undefined);
  const judge = verdictOf({ ...tools, scratch });
  await playCases(connectByCurl(scratch), publishedAt(lambda.origin), cases, judge, tally);
}

/** Many calls at once. */
async function ask(
  lambda: LambdaFunction,
  { mesh, scratch }: Stage,
  count: number,
): Promise<readonly Answer[]> {
  const [client, server] = [connectByCurl(scratch), publishedAt(lambda.origin)];
  const token = await mesh.token(caller);
  const call = async (): Promise<Call> => {
    const { csr } = await pilotAgentRequest(caller.spiffeId);
    return { csr, validitySeconds: 3600, token };
  };
  const calls = await Promise.all(Array.from({ length: count }, call));
  return Promise.all(calls.map((each) => client.createCertificate(server, each)));
}

/** The audit events of issued certificates so far. */
const issuedIn = (lambda: LambdaFunction): readonly { logIndex: number }[] =>
  lambda
    .lines()
    .filter((line) => line.includes('"create-certificate"') && line.includes('"issued"'))
    .map((line) => JSON.parse(line.slice(line.indexOf("{"))));

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
  const last = await ask(lambda, stage, 4);
  assert(
    last.every(({ code }) => code === "OK"),
    JSON.stringify(last),
  );
  const counted = await auditor.untilLogged(url, shards, answered, () => cron(lambda).then(look));
  console.log(
    `lambda: ${kills} kills, ${answered.size} answered, ${counted}; ${auditor.checkpoints} checkpoints verified by x/mod`,
  );
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
