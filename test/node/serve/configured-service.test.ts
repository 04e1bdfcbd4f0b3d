import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe } from "vitest";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { ReplicaStores } from "../../../src/node/stores/stores.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { describeCertificateCredentials } from "../../contract/configured-service/certificate-credentials.ts";
import type {
  ConfigurableService,
  RunningService,
} from "../../contract/configured-service/configurable-service.ts";
import { describeDeniedProducts } from "../../contract/configured-service/denied-products.ts";
import { describeForeignTokens } from "../../contract/configured-service/foreign-tokens.ts";
import { describeNodeProxies } from "../../contract/configured-service/node-proxies.ts";
import { describePolicies } from "../../contract/configured-service/policies.ts";
import { describeRepeatedRequests } from "../../contract/configured-service/repeated-requests.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { secretsToken, startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

const api = serveReviewingApi();

const served: ServedCa[] = [];
const buckets: (() => Promise<void>)[] = [];

const endServed = () => Promise.all(served.splice(0).map(({ end }) => end()));

afterEach(async () => {
  await endServed();
  for (const close of buckets.splice(0)) await close();
});

async function openService(): Promise<ConfigurableService> {
  const KEK = randomKek();
  const STORE_DIRECTORY = await lastingFolder();
  return {
    store: await FileStore.open(STORE_DIRECTORY),
    keks: [await Kek.import("k1", Base64.parse(KEK.slice(3)) ?? new Uint8Array())],
    start: async (values) => {
      await endServed();
      return startOne({ KEK, STORE_DIRECTORY, ...values });
    },
  };
}

async function startOne(values: Readonly<Record<string, unknown>>): Promise<RunningService> {
  const ca = await serveCa(values, undefined, "nobody");
  served.push(ca);
  const roots = await ca.bundle();
  return {
    call: async (csr, leaf, headers, metadata = {}) => {
      const client = nativeClient(ca.port, servedName, { roots, ...leaf });
      const outcome = await client.createCertificate({ csr, metadata }, headers);
      client.close();
      return outcome;
    },
    takeAudits: () => ca.log.audits.splice(0),
  };
}

/** Two replicas on one bucket. */
async function openReplicas(): Promise<ConfigurableService> {
  const { place, origin, close } = await startS3Api();
  buckets.push(close);
  const S3_CREDENTIALS_FILE = join(await lastingFolder(), "credentials");
  const { accessKeyId, secretAccessKey } = s3Credential;
  await writeFile(
    S3_CREDENTIALS_FILE,
    `[default]\naws_access_key_id=${accessKeyId}\naws_secret_access_key=${secretAccessKey}\n`,
  );
  const bucket = {
    STORE: "s3",
    STORE_BUCKET: place.bucket,
    STORE_PREFIX: place.prefix,
    S3_CREDENTIALS_FILE,
    S3_ENDPOINT: origin,
    S3_REGION: place.region,
    PROPAGATION_INTERVAL: "10s",
  };
  const { store } = await ReplicaStores.inBucket(place, () => new Date());
  return answeringInTurns(store, bucket);
}

/** Two replicas on the Secrets of a namespace. */
async function openReplicasOnSecrets(): Promise<ConfigurableService> {
  const secrets = await startSecretsApi();
  buckets.push(secrets.close);
  const KUBERNETES_TOKEN_FILE = join(await lastingFolder(), "token");
  await writeFile(KUBERNETES_TOKEN_FILE, secretsToken);
  const STORE_NAMESPACE = "rampart-store";
  const { store } = ReplicaStores.inSecrets(secrets.client, STORE_NAMESPACE, secrets.origin);
  return answeringInTurns(store, {
    STORE: "kubernetes",
    STORE_NAMESPACE,
    KUBERNETES_SERVER: secrets.origin,
    KUBERNETES_TOKEN_FILE,
    PROPAGATION_INTERVAL: "10s",
  });
}

async function answeringInTurns(
  store: AuthorityStore,
  shared: Readonly<Record<string, string>>,
): Promise<ConfigurableService> {
  const KEK = randomKek();
  return {
    store,
    keks: [await Kek.import("k1", Base64.parse(KEK.slice(3)) ?? new Uint8Array())],
    start: async (values) => {
      await endServed();
      const replicas = [await startOne({ KEK, ...values, ...shared })];
      replicas.push(await startOne({ KEK, ...values, ...shared }));
      let calls = 0;
      return {
        call: async (...call) => {
          const replica = replicas[calls++ % replicas.length];
          if (!replica) throw new Error("no replica runs");
          return replica.call(...call);
        },
        takeAudits: () => replicas.flatMap(({ takeAudits }) => takeAudits()),
      };
    },
  };
}

describe("a client certificate over TLS", () => describeCertificateCredentials(openService));
describe("rampart serve", () => describeNodeProxies(openService, api.url));
describe("denials", () =>
  describeDeniedProducts(openService, ["token", "certificate", "forwarded"]));
describe("tokens of other platforms", () => describeForeignTokens(openService));
describe("policies of replicas", () => describePolicies(openReplicas));
describe("replicas on a bucket", () => describeRepeatedRequests(openReplicas));
describe("replicas on Secrets", () => describeRepeatedRequests(openReplicasOnSecrets));
