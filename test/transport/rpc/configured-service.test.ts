import { describe } from "vitest";
import { Kek } from "../../../src/custody/kek.ts";
import { Base64 } from "../../../src/pki/encoding/base64.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { describeCertificateCredentials } from "../../contract/configured-service/certificate-credentials.ts";
import type { ConfigurableService } from "../../contract/configured-service/configurable-service.ts";
import {
  describeDeniedProducts,
  describeNamedRequesters,
} from "../../contract/configured-service/denied-products.ts";
import { describeForeignTokens } from "../../contract/configured-service/foreign-tokens.ts";
import { describeNodeProxies } from "../../contract/configured-service/node-proxies.ts";
import {
  describePolicies,
  describePolicyDecisions,
} from "../../contract/configured-service/policies.ts";
import { connectBinary, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { serveReviewingApi } from "../../testkit/kubernetes/reviewing-server.ts";
import type { HeldLeaf } from "../../testkit/pki/held-leaf.ts";

const api = serveReviewingApi();

async function openService(): Promise<ConfigurableService> {
  const KEK = randomKek();
  const keks = [await Kek.import("k1", Base64.parse(KEK.slice(3)) ?? new Uint8Array())] as const;
  const store = createMemoryStore();
  return {
    store,
    keks,
    start: async (values) => {
      const clock = () => new Date();
      const { certificateAuthority, log } = await startCa(
        { KEK, ...values },
        { store, clock, isAlone: true },
      );
      const shown = new WeakMap<Request, HeldLeaf>();
      const app = CaRoutes.create(certificateAuthority, (request) => ({
        clientCertificate: shown.get(request)?.der,
      }));
      return {
        call: async (csr, leaf, headers = {}, metadata = {}) => {
          const request = requestOf(connectBinary, { csr, metadata }, headers);
          if (leaf) shown.set(request, leaf);
          return outcomeOf(connectBinary, await app.fetch(request));
        },
        takeAudits: () => log.audits.splice(0),
      };
    },
  };
}

describe("a client certificate in process", () => describeCertificateCredentials(openService));
describe("a CA in process", () => describeNodeProxies(openService, api.url));
describe("denials", () => describeDeniedProducts(openService));
describe("denials of whom a signer names", () => describeNamedRequesters(openService));
describe("tokens of other platforms", () => describeForeignTokens(openService));
describe("policies", () => describePolicies(openService));
describe("decisions of policies", () => describePolicyDecisions(openService));
