import { X509Certificate } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { environmentIn, startTestAgent } from "../../testkit/agent/running-agent.ts";
import { pemsOf, SdsStream } from "../../testkit/agent/sds-client.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const issuer = "https://cluster.test";
const key = await createTokenKey("ES256", "k1");

let served: ServedCa;
beforeAll(async () => {
  const gateways = [{ account: "istio-system/rampart-gateway", dns_names: [servedName] }];
  const table = { issuer, jwks: jwksOf(key), gateways };
  served = await serveCa({
    ISSUERS: [table],
    SERVING_NAMES: ["localhost", "istiod.istio-system.svc"],
    CRL: "on",
  });
});
afterAll(() => served.end());

/** The environment of a pod or a machine that calls the CA. */
async function environment(folder: string, port = served.port): Promise<Environment> {
  await writeFile(`${folder}/root-cert.pem`, await served.bundle());
  // Like a forwarded port of istiod, whose certificate names its Service.
  return environmentIn(folder, `localhost:${port}`);
}

async function writeToken(folder: string, account = "foo:bar"): Promise<void> {
  await writeFile(`${folder}/token`, await mintAccountToken(key, issuer, account, new Date()));
}

/** A gateway before the CA. @returns Its port. */
async function startGateway(): Promise<number> {
  const folder = await temporaryFolder();
  await writeToken(folder, "istio-system:rampart-gateway");
  await writeFile(`${folder}/roots.pem`, await served.bundle());
  const configuration = GatewayConfiguration.parse({
    UPSTREAM: `https://localhost:${served.port}`,
    UPSTREAM_CA_FILE: `${folder}/roots.pem`,
    TOKEN_FILE: `${folder}/token`,
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    LIMITS: patientLimits,
  });
  const context = { log: createEventRecorder(), clock: () => new Date() };
  const gateway = await runGateway(configuration, context);
  onTestFinished(() => gateway.close(100));
  return (await gateway.address).port;
}

test.each([
  ["over native gRPC", () => served.port],
  ["through a gateway", startGateway],
])(
  "an agent with a pod's environment gets its certificate %s, the published bundle and its CRLs",
  async (_, start) => {
    const folder = await temporaryFolder();
    await writeToken(folder);
    const { event, events } = await startTestAgent(await environment(folder, await start()));
    const stream = new SdsStream(`${folder}/sds`);
    stream.subscribe("default");
    const [secret] = await stream.secrets();
    const leaf = new X509Certificate((secret && pemsOf(secret)[0]) ?? "");
    expect(leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/foo/sa/bar");
    expect(await event("bundle-read")).toMatchObject({ outcome: expect.any(String), roots: 2 });
    expect(await event("revocation-lists-used")).toMatchObject({ lists: 2 });
    expect(events.filter(({ level }) => level !== "info")).toEqual([]);
  },
);

// Like Istio's virtual machine, it has a token for the first start and the certificate alone after a reboot.
test("a machine renews with its last certificate after a reboot, without a token", async () => {
  const folder = await temporaryFolder();
  await writeToken(folder);
  const machine = {
    ...(await environment(folder)),
    PROV_CERT: `${folder}/certs`,
    OUTPUT_CERTS: `${folder}/certs`,
  };
  const first = await startTestAgent(machine);
  await first.event("files-written");
  await first.agent.close();
  await rm(`${folder}/token`);
  const second = await startTestAgent(machine);
  await second.event("certificate-obtained");
  expect(second.events.map(({ event }) => event)).toContain("token-missing");
});
