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
import { describeNodeProxies } from "../../contract/configured-service/node-proxies.ts";
import { describeRepeatedRequests } from "../../contract/configured-service/repeated-requests.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { s3CredentialsFile, startS3Api } from "../../testkit/stores/s3-api.ts";
import { startSecretsApi } from "../../testkit/stores/secrets-api.ts";
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

async function openReplicas(): Promise<ConfigurableService> {
  const { place, storeKeys, close } = await startS3Api();
  buckets.push(close);
  const { store } = await ReplicaStores.inBucket(place, () => new Date());
  const S3_CREDENTIALS_FILE = await s3CredentialsFile();
  return answeringInTurns(store, { ...storeKeys, S3_CREDENTIALS_FILE });
}

async function openReplicasOnSecrets(): Promise<ConfigurableService> {
  const { client, origin, storeKeys, close } = await startSecretsApi();
  buckets.push(close);
  const keys = await storeKeys();
  const { store } = ReplicaStores.inSecrets(client, keys["STORE_NAMESPACE"] ?? "", origin);
  return answeringInTurns(store, keys);
}

/** Two replicas on one store. */
async function answeringInTurns(
  store: AuthorityStore,
  shared: Readonly<Record<string, string>>,
): Promise<ConfigurableService> {
  const KEK = randomKek();
  const own = { KEK, PROPAGATION_INTERVAL: "10s", ...shared };
  return {
    store,
    keks: [await Kek.import("k1", Base64.parse(KEK.slice(3)) ?? new Uint8Array())],
    start: async (values) => {
      await endServed();
      const replicas = [await startOne({ ...values, ...own })];
      replicas.push(await startOne({ ...values, ...own }));
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
describe("replicas on a bucket", () => describeRepeatedRequests(openReplicas));
describe("replicas on Secrets", () => describeRepeatedRequests(openReplicasOnSecrets));
