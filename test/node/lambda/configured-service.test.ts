import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { afterEach } from "vitest";
import { Kek } from "../../../src/custody/kek.ts";
import { createLambda } from "../../../src/node/lambda/lambda.ts";
import { ReplicaStores } from "../../../src/node/stores/stores.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import type { ConfigurableService } from "../../contract/configured-service/configurable-service.ts";
import { describeRepeatedRequests } from "../../contract/configured-service/repeated-requests.ts";
import { connectBinary, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { takeAuditsOf } from "../../testkit/log/log-lines.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

const ends: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const clock = () => new Date();

/** A request as a function URL hands it on. */
const eventOf = async (request: Request) => ({
  version: "2.0",
  rawPath: new URL(request.url).pathname,
  rawQueryString: "",
  headers: Object.fromEntries(request.headers),
  requestContext: {
    domainName: "a.lambda-url.test",
    http: { method: request.method, sourceIp: "192.0.2.1" },
  },
  body: Buffer.from(await request.arrayBuffer()).toString("base64"),
  isBase64Encoded: true,
});

async function openService(): Promise<ConfigurableService> {
  const KEK = randomKek();
  const api = await startS3Api();
  ends.push(api.close);
  const { store } = await ReplicaStores.inBucket(api.place, clock);
  const file = join(await lastingFolder(), "rampart.toml");
  const bucket = { ...api.storeKeys, PROPAGATION_INTERVAL: "10s" };
  const environment = {
    KEK,
    AWS_ACCESS_KEY_ID: s3Credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3Credential.secretAccessKey,
  };
  return {
    store,
    keks: [await Kek.import("k1", Base64.parse(KEK.slice(3)) ?? new Uint8Array())],
    start: async (values) => {
      const lines: string[] = [];
      await writeFile(file, stringify({ ...values, ...bucket }));
      const handler = createLambda({ file, environment, clock, write: (line) => lines.push(line) });
      return {
        call: async (csr, _leaf, headers = {}, metadata = {}) => {
          const request = requestOf(connectBinary, { csr, metadata }, headers);
          const { statusCode, headers: all, body } = (await handler(await eventOf(request))) ?? {};
          const octets = Buffer.from(body ?? "", "base64");
          return outcomeOf(
            connectBinary,
            new Response(octets, { status: statusCode ?? 500, headers: all ?? {} }),
          );
        },
        takeAudits: () => takeAuditsOf(lines),
      };
    },
  };
}

describeRepeatedRequests(openService);
