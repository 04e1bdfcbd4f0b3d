import { env } from "cloudflare:workers";
import { beforeEach, describe } from "vitest";
import { Kek } from "../../src/custody/kek.ts";
import { Base64 } from "../../src/pki/encoding/base64.ts";
import { createKvStore } from "../../src/worker/kv-store.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { describeCertificateCredentials } from "../contract/configured-service/certificate-credentials.ts";
import type { ConfigurableService } from "../contract/configured-service/configurable-service.ts";
import { describeDeniedProducts } from "../contract/configured-service/denied-products.ts";
import { describeForeignTokens } from "../contract/configured-service/foreign-tokens.ts";
import { describeNodeProxies } from "../contract/configured-service/node-proxies.ts";
import { describePolicies } from "../contract/configured-service/policies.ts";
import { connectBinary, outcomeOf, requestOf } from "../contract/rpc-calls.ts";
import { takeAuditsOf } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { reviewingApi } from "./runtime/internet.ts";

const lines = recordConsoleLines();

beforeEach(async () => {
  const { keys } = await env.AUTHORITIES.list();
  for (const { name } of keys) await env.AUTHORITIES.delete(name);
});

/** The verdict of an edge that believes every certificate. */
const verdict = (der: Uint8Array) => ({
  certVerified: "SUCCESS",
  certRevoked: "0",
  certRFC9440: `:${Base64.format(der)}:`,
});

async function openService(): Promise<ConfigurableService> {
  const [id = "", octets = ""] = env.KEK.split(":");
  return {
    store: createKvStore(env.AUTHORITIES),
    keks: [await Kek.import(id, Base64.parse(octets) ?? new Uint8Array())],
    start: async (values) => {
      const worker = createWorker({ clock: () => new Date() });
      const environment = { ...env, ...values };
      return {
        call: async (csr, leaf, headers = {}, metadata = {}) => {
          const request = requestOf(connectBinary, { csr, metadata }, headers);
          const cf = { tlsClientAuth: leaf && verdict(leaf.der) };
          const response = await worker.fetch(new Request(request, { cf }), environment);
          return outcomeOf(connectBinary, response);
        },
        takeAudits: () => takeAuditsOf(lines),
      };
    },
  };
}

describe("behind an edge that believes every CA", () =>
  describeCertificateCredentials(openService));
describe("a Worker", () => describeNodeProxies(openService, () => reviewingApi));
describe("denials", () =>
  describeDeniedProducts(openService, ["token", "certificate", "forwarded"]));
describe("tokens of other platforms", () => describeForeignTokens(openService));
describe("policies", () => describePolicies(openService));
