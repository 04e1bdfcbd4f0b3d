import { X509Certificate } from "node:crypto";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { beforeEach, describe, expect, test } from "vitest";
import { forwardedHeader, forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import type { Quotas } from "../../../src/ca/issuance/quotas.ts";
import { JwtSvidService } from "../../../src/gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { bearer, callWithClient, connectBinary } from "../../contract/rpc-calls.ts";
import { issuerTables, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { createMemoryStore, type MemoryStore } from "../../testkit/ca/memory-store.ts";
import { type RunningCa, serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { refusalIn } from "../../testkit/refusal.ts";

const aws = "sts.amazonaws.com";
const workload = "spiffe://cluster.local/ns/foo/sa/bar";

const KEK = randomKek();
const key = await createTokenKey("ES256", "k1");
const { csrPem: csr } = await createWorkload();
let store: MemoryStore;
let ca: RunningCa;

/** Starts the CA anew on its store. */
async function start(values: object = {}, limited: Partial<Quotas> = {}): Promise<void> {
  const table = {
    ...issuerTables.cluster,
    jwks: jwksOf(key),
    jwt_audiences: [aws],
    gateways: [
      { account: "istio-system/gateway", dns_names: ["a.test"] },
      { account: "istio-system/envoy", dns_names: ["b.test"], forwards: "identities" },
    ],
  };
  ca = await startCa(
    { KEK, ISSUERS: [table], JWT_ISSUER: "https://id.test", ...values },
    { store, quotas: { caller: () => 0, issuer: () => 0, ...limited } },
  );
  await ca.rotate();
}

/** A quota of one for each key. */
function oneEach(): Quotas["caller"] {
  const taken = new Set<string>();
  return (key) => {
    const wait = taken.has(key) ? 60 : 0;
    taken.add(key);
    return wait;
  };
}

/** The CA, for a peer that shows this certificate or none. */
const serviceFor = (shown?: X509Certificate): ServiceUnderTest => {
  const clientCertificate = shown && new Uint8Array(shown.raw);
  const app = CaRoutes.create(ca.certificateAuthority, () => ({ clientCertificate }));
  return serviceOf({ ...ca, app }, key);
};

/** The certificate of the workload, by its token. */
async function certificate(): Promise<X509Certificate> {
  const service = serviceFor();
  const headers = await bearer(service, "foo:bar");
  const outcome = await callWithClient(connectBinary, service, { csr }, headers);
  if ("code" in outcome) throw new Error(outcome.message);
  return new X509Certificate(outcome.certChain[0] ?? "");
}

/** Asks for a token, by that certificate or otherwise. @returns The identity in it, or how the call ends. */
type Ask = (shown: X509Certificate, audience?: string) => Promise<string>;

async function answerTo(
  service: ServiceUnderTest,
  headers: Record<string, string>,
  audience: string,
  named = "",
): Promise<string> {
  const client = createClient(JwtSvidService, connectBinary.transport(service));
  service.takeAudits();
  try {
    const asked = { audiences: [audience], spiffeId: named };
    return (await client.createJwtSvid(asked, { headers })).spiffeId;
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return [Code[error.code], ...service.takeAudits().map(refusalIn)].join(" ");
  }
}

async function throughGateway(account: string, forwarded: string, audience: string) {
  const service = serviceFor();
  const headers = { ...(await bearer(service, account)), [forwardedHeader]: forwarded };
  return answerTo(service, headers, audience);
}

const ways: Readonly<Record<string, Ask>> = {
  "who shows a certificate": (shown, audience = aws) => answerTo(serviceFor(shown), {}, audience),
  "whose certificate a gateway forwards": (shown, audience = aws) =>
    throughGateway("istio-system:gateway", forwardedValue(shown.toString(), workload), audience),
  "whose name a gateway forwards": (_, audience = aws) =>
    throughGateway("istio-system:envoy", `URI=${workload}`, audience),
  "whom a node proxy names": async (_, audience = aws) => {
    const service = serviceFor();
    return answerTo(service, await bearer(service, "istio-system:ztunnel"), audience, workload);
  },
};

describe.each(Object.entries(ways))("%s", (_, ask) => {
  beforeEach(async () => {
    store = createMemoryStore();
    await start();
  });

  test("gets a token of the same identity, for the audiences of its last token's issuer", async () => {
    const shown = await certificate();
    expect(await ask(shown)).toBe(workload);
    expect(await ask(shown, "https://vault.test")).toBe("PermissionDenied audience-denied");
  });

  test.each<[keyof Quotas, string]>([
    ["caller", workload.replace("bar", "other")],
    ["issuer", "ResourceExhausted quota-exceeded issuer"],
  ])("takes from the quota of the %s", async (quota, others) => {
    const shown = await certificate();
    await start({}, { [quota]: oneEach() });
    expect(await ask(shown)).toBe(workload);
    expect(await ask(shown)).toBe(`ResourceExhausted quota-exceeded ${quota}`);
    const service = serviceFor();
    expect(await answerTo(service, await bearer(service, "foo:other"), aws)).toBe(others);
  });

  test.each<[string, string, object]>([
    [
      "rule",
      "policy-denied no",
      { POLICY: { rules: [{ name: "no", when: { product: "token" }, then: { deny: "no" } }] } },
    ],
    ["denial", "denied ns/foo/sa/bar", { DENIED: ["ns/foo/sa/bar"] }],
  ])("gets none that a %s forbids", async (_, reason, values) => {
    const shown = await certificate();
    await start(values);
    expect(await ask(shown)).toBe(`PermissionDenied ${reason}`);
  });
});
