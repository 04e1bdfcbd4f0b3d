import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import type { Outcome } from "../../contract/rpc-calls.ts";
import { rpcPath } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import { launchServer, serveToml } from "../../testkit/programs/rampart-process.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { until } from "../../testkit/time/until.ts";
import { scheduledEvent, startFunction } from "../lambda/instances.ts";

/** What a caller says beside its token. */
export interface Asked {
  readonly csr: string;
  readonly token: string;
  readonly named?: string | undefined;
}

/** A CA, or a gateway in front of one. */
export interface Platform {
  readonly name: string;
  readonly ask: (asked: Asked) => Promise<Outcome>;
  readonly end: () => Promise<void>;
}

type Values = Readonly<Record<string, unknown>> & { readonly ISSUERS: readonly object[] };

const day = new Date().toISOString().slice(0, 10);

const metadataOf = ({ named }: Asked) =>
  named === undefined ? {} : { metadata: { ImpersonatedIdentity: named } };

/** A call of Connect in JSON. */
const askAt =
  (origin: () => Promise<string>) =>
  async (asked: Asked): Promise<Outcome> => {
    const response = await fetch(`${await origin()}${rpcPath}`, {
      method: "POST",
      headers: { authorization: `Bearer ${asked.token}`, "content-type": "application/json" },
      body: JSON.stringify({ csr: asked.csr, ...metadataOf(asked) }),
    });
    const answer = (await response.json()) as { certChain?: string[]; code?: string };
    if (answer.certChain) return { certChain: answer.certChain };
    const code = (answer.code ?? "").replace(/(?:^|_)([a-z])/g, (_, letter) =>
      letter.toUpperCase(),
    );
    return { code, message: "" };
  };

/** A call of native gRPC over TLS. */
async function askNatively(port: number, monitoringAddress: string) {
  const roots = await (await fetch(`http://${monitoringAddress}/bundle.pem`)).text();
  const client = nativeClient(port, "istiod.istio-system.svc", { roots });
  const ask = (asked: Asked): Promise<Outcome> =>
    client.createCertificate(
      { csr: asked.csr, ...metadataOf(asked) },
      { authorization: `Bearer ${asked.token}` },
    );
  return { ask, close: client.close };
}

export interface Serving extends Platform {
  /** Where its log and its bundle are. */
  readonly published: string;
}

export async function startServing(
  parent: string,
  values: Values,
  environment: Readonly<Record<string, string>> = {},
): Promise<Serving> {
  const folder = join(parent, "serve");
  await mkdir(folder);
  const file = join(folder, "rampart.toml");
  await writeFile(
    file,
    serveToml(join(folder, "store"), { PROPAGATION_INTERVAL: "0s", ...values }),
  );
  const serve = await launchServer("serve", file, { KEK: randomKek(), ...environment });
  const { ask, close } = await askNatively(serve.port, serve.monitoringAddress);
  const published = `http://${serve.monitoringAddress}`;
  const end = async (): Promise<void> => {
    close();
    await serve.end();
  };
  return { name: "rampart serve", ask, published, end };
}

export interface Edge extends Platform {
  readonly origin: string;
}

export async function startEdge(values: Values): Promise<Edge> {
  const vars = { ...values, INCEPTION_DATE: day, PROPAGATION_INTERVAL: "0s", KEK: randomKek() };
  const harness = await createEdgeWorker({ vars: JSON.parse(JSON.stringify(vars)) });
  const { url } = await harness.listen();
  await harness.getWorker().scheduled({ cron: "* * * * *" });
  const origin = url.origin;
  return {
    name: "a Worker (workerd)",
    origin,
    ask: askAt(async () => origin),
    end: () => harness.close(),
  };
}

const gatewayIssuer = "https://mesh.test";
const gatewayKey = createTokenKey("ES256", "k1");

/** The issuer of the gateway's own token. */
export const gatewayTable = async (): Promise<object> => ({
  issuer: gatewayIssuer,
  namespaces: ["istio-system"],
  jwks: jwksOf(await gatewayKey),
  gateways: [{ account: "istio-system/gateway", dns_names: ["istiod.istio-system.svc"] }],
});

/** A gateway in front of the Worker. */
export async function startGateway(parent: string, { origin }: Edge): Promise<Platform> {
  const folder = join(parent, "gateway");
  await mkdir(folder);
  const [token, config] = [join(folder, "token"), join(folder, "gateway.toml")];
  const account = "istio-system:gateway";
  await writeFile(
    token,
    await mintAccountToken(await gatewayKey, gatewayIssuer, account, new Date()),
  );
  const keys = { UPSTREAM: origin, TOKEN_FILE: token };
  const places = { LISTEN: "127.0.0.1:0", MONITORING_LISTEN: "127.0.0.1:0" };
  await writeFile(config, stringify({ ...keys, ...places }));
  const gateway = await launchServer("gateway", config);
  const { ask, close } = await askNatively(gateway.port, gateway.monitoringAddress);
  const end = async (): Promise<void> => {
    close();
    await gateway.end();
  };
  return { name: "rampart gateway before a Worker", ask, end };
}

const handler = join(import.meta.dirname, "../../../src/node/lambda/main.ts");

/** Lambda's handler in instances of a runtime API, on a stand-in for S3. */
export async function startLambda(parent: string, values: Values): Promise<Platform> {
  const folder = join(parent, "lambda");
  await mkdir(folder);
  const api = await startS3Api();
  const bucket = {
    ...{ STORE: "s3", STORE_BUCKET: api.place.bucket, STORE_PREFIX: api.place.prefix },
    ...{ S3_ENDPOINT: api.origin, S3_REGION: api.place.region, PROPAGATION_INTERVAL: "10s" },
    INCEPTION_DATE: day,
  };
  await writeFile(join(folder, "rampart.toml"), stringify({ ...values, ...bucket }));
  await writeFile(
    join(folder, "index.mjs"),
    `export { handler } from ${JSON.stringify(handler)};\n`,
  );
  const lambda = await startFunction(folder, {
    KEK: randomKek(),
    AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
  });
  await until("nothing signs", async () => {
    await lambda.invoke(scheduledEvent);
    return (await fetch(`${lambda.origin}/readyz`)).status === 200;
  });
  const end = async (): Promise<void> => {
    await lambda.end();
    await api.close();
  };
  return { name: "AWS Lambda's handler", ask: askAt(async () => lambda.origin), end };
}
