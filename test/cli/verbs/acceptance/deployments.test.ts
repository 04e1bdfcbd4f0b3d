import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { expect, onTestFinished, test } from "vitest";
import { runGateway } from "../../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../../src/node/gateway/gateway-configuration.ts";
import { createLambda } from "../../../../src/node/lambda/lambda.ts";
import { patientLimits } from "../../../testkit/ca/patient-limits.ts";
import { serveCa } from "../../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { createEventRecorder } from "../../../testkit/log/event-recorder.ts";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { createEdgeWorker } from "../../../testkit/programs/edge-worker.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { s3Credential, startS3Api } from "../../../testkit/stores/s3-api.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const issuer = "https://a.test";
const key = await createTokenKey("ES256", "k1");
const token = (account = "foo:bar") => mintAccountToken(key, issuer, account, new Date());
const gatewayName = "localhost";
const gateways = [{ account: "istio-system/rampart-gateway", dns_names: [gatewayName] }];
const common = {
  ISSUERS: [{ issuer, jwks: jwksOf(key), gateways }],
  INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  PROPAGATION_INTERVAL: "0s",
  CRL: "on",
};

/** Plays against a CA with a storm. @returns The rows that are neither good nor skipped, and the names of those that are skipped. */
async function play(words: readonly string[]) {
  const tokenFile = join(await temporaryFolder(), "token");
  await writeFile(tokenFile, await token());
  const usual = ["--token-file", tokenFile, "--wait", "1s", "--yes", "--calls", "20", "--json"];
  const { printed } = await MemoryTerminal.ran(["acceptance", ...usual, ...words]);
  const { rows } = JSON.parse(printed) as {
    rows: readonly { name: string; verdict: string; measured: string }[];
  };
  return {
    wrong: rows.filter(({ verdict }) => verdict === "attention" || verdict === "broken"),
    skipped: rows.filter(({ verdict }) => verdict === "skipped").map(({ name }) => name),
  };
}

/** What nobody has turned on, or named, in any of these deployments. */
const off = ["log-before", "jwt-svid", "log-after", "store", "cron", "doctor"];
const withoutTls = ["server-certificate", "tls-version", "tls-group"];

test("finds the Worker good", async () => {
  const worker = await createEdgeWorker({ vars: { ...common, KEK: randomKek() } as never });
  onTestFinished(() => worker.close());
  const { url } = await worker.listen();
  await worker.getWorker().scheduled({ cron: "* * * * *" });
  const { wrong, skipped } = await play(["--url", url.origin, "--for", "worker"]);
  expect(wrong).toEqual([]);
  expect(skipped.toSorted()).toEqual([...off, ...withoutTls, "grpc"].toSorted());
});

test("finds a served CA good through a gateway, over native gRPC as well", async () => {
  const served = await serveCa({ ...common, SERVING_NAMES: ["localhost"] });
  onTestFinished(served.end);
  const folder = await temporaryFolder();
  const roots = join(folder, "roots.pem");
  await writeFile(roots, await served.bundle());
  await writeFile(join(folder, "token"), await token("istio-system:rampart-gateway"));
  const gateway = await runGateway(
    GatewayConfiguration.parse({
      UPSTREAM: `https://localhost:${served.port}`,
      UPSTREAM_CA_FILE: roots,
      TOKEN_FILE: join(folder, "token"),
      LISTEN: "127.0.0.1:0",
      MONITORING_LISTEN: "127.0.0.1:0",
      LIMITS: patientLimits,
    }),
    { log: createEventRecorder(), clock: () => new Date() },
  );
  onTestFinished(() => gateway.close(1000));
  const { port } = await gateway.address;
  const elsewhere = ["--elsewhere", `https://localhost:${served.port}`];
  const { wrong, skipped } = await play([
    ...["--url", `https://${gatewayName}:${port}`, "--ca", roots, ...elsewhere],
  ]);
  expect(wrong).toEqual([]);
  expect(skipped.toSorted()).toEqual(off.toSorted());
});

async function eventOf(incoming: IncomingMessage): Promise<object> {
  const { method, url = "", headers, socket } = incoming;
  const [rawPath, rawQueryString = ""] = url.split("?", 2);
  const body = Buffer.concat(await Array.fromAsync(incoming as AsyncIterable<Buffer>));
  return {
    version: "2.0",
    rawPath,
    rawQueryString,
    headers,
    requestContext: {
      domainName: "a.lambda-url.test",
      http: { method, sourceIp: socket.remoteAddress },
    },
    body: body.toString("base64"),
    isBase64Encoded: true,
  };
}

test("finds a function on Lambda good", async () => {
  const api = await startS3Api();
  onTestFinished(api.close);
  const file = join(await temporaryFolder(), "rampart.toml");
  const store = { STORE: "s3", STORE_BUCKET: api.place.bucket, STORE_PREFIX: "mesh-1/" };
  const bucket = { S3_ENDPOINT: api.origin, S3_REGION: api.place.region };
  await writeFile(file, stringify({ ...common, ...store, ...bucket, PROPAGATION_INTERVAL: "10s" }));
  // Founded a while ago, so that every process knows its first authority.
  let since = 120_000;
  const handler = createLambda({
    file,
    clock: () => new Date(Date.now() - since),
    write: () => {},
    environment: {
      KEK: randomKek(),
      AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
    },
  });
  await handler({ source: "aws.events", "detail-type": "Scheduled Event" });
  since = 0;
  const server = createServer(async (incoming, outgoing) => {
    const { statusCode = 0, headers, body = "" } = (await handler(await eventOf(incoming))) ?? {};
    outgoing.writeHead(statusCode, headers).end(Buffer.from(body, "base64"));
  });
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(close);
  const { wrong, skipped } = await play(["--url", `http://${host}`, "--for", "lambda"]);
  expect(wrong).toEqual([]);
  expect(skipped).toEqual(expect.arrayContaining([...off, ...withoutTls, "grpc"]));
});
