import { afterEach, describe } from "vitest";
import { importKek } from "../../../src/custody/kek.ts";
import { openFileStore } from "../../../src/node/files/file-store.ts";
import { parseBase64 } from "../../../src/pki/encoding/base64.ts";
import { describeCertificateCredentials } from "../../contract/configured-service/certificate-credentials.ts";
import type { ConfigurableService } from "../../contract/configured-service/configurable-service.ts";
import { describeDeniedProducts } from "../../contract/configured-service/denied-products.ts";
import { describeNodeProxies } from "../../contract/configured-service/node-proxies.ts";
import { describePolicies } from "../../contract/configured-service/policies.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

const api = serveReviewingApi();

const ends: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

async function openService(): Promise<ConfigurableService> {
  const KEK = randomKek();
  const STORE_DIRECTORY = await lastingFolder();
  return {
    store: await openFileStore(STORE_DIRECTORY),
    keks: [await importKek("k1", parseBase64(KEK.slice(3)) ?? new Uint8Array())],
    start: async (values) => {
      const served = await serveCa({ KEK, STORE_DIRECTORY, ...values });
      ends.push(served.end);
      const roots = await served.bundle();
      return {
        call: async (csr, leaf, headers, metadata = {}) => {
          const client = nativeClient(served.port, servedName, { roots, ...leaf });
          const outcome = await client.createCertificate({ csr, metadata }, headers);
          client.close();
          return outcome;
        },
        takeAudits: () => served.log.audits.splice(0),
      };
    },
  };
}

describe("a client certificate over TLS", () => describeCertificateCredentials(openService));
describe("rampart serve", () => describeNodeProxies(openService, api.url));
describe("denials", () => describeDeniedProducts(openService));
describe("policies", () => describePolicies(openService));
