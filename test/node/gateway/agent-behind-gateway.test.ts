import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { SpiffeWorkloadAPI } from "../../../src/gen/spiffe/workload_pb.ts";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { parseGatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

test("an agent behind a gateway gets tokens over native gRPC, and validates them by the gateway's bundle", async () => {
  const ca = await startHttpCa({ JWT_ISSUER: "https://ca.test" }, { jwt_audiences: ["a"] });
  onTestFinished(() => ca.close());
  await ca.cron();
  const folder = await temporaryFolder();
  const { key, ca: certificate } = await createTlsIdentity(true);
  await writeFile(`${folder}/tls.pem`, certificate);
  await writeFile(`${folder}/tls.key`, key);
  const configuration = parseGatewayConfiguration({
    UPSTREAM: ca.url,
    TOKEN_FILE: await ca.tokenFile("istio-system:gateway"),
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    TLS_CERTIFICATE_FILE: `${folder}/tls.pem`,
    TLS_KEY_FILE: `${folder}/tls.key`,
  });
  const ports = { log: createEventRecorder(), clock: () => new Date() };
  const gateway = await runGateway(configuration, ports);
  onTestFinished(() => gateway.close(100));
  const { port } = await gateway.address;
  const { event } = await runAgent(ca, {
    CA_ADDR: `127.0.0.1:${port}`,
    CA_ROOT_CA: `${folder}/tls.pem`,
    RAMPART_WORKLOAD_API_SOCKET: `${folder}/api`,
  });
  await event("bundle-read");
  const nodeOptions = { createConnection: () => connect(`${folder}/api`) };
  const transport = createGrpcTransport({ baseUrl: "http://agent", nodeOptions });
  const client = createClient(SpiffeWorkloadAPI, transport);
  const options = { headers: { "workload.spiffe.io": "true" } };
  const { svids } = await client.fetchJWTSVID({ audience: ["a"] }, options);
  const { svid = "" } = svids[0] ?? {};
  const validated = await client.validateJWTSVID({ audience: "a", svid }, options);
  expect(validated.spiffeId).toBe("spiffe://cluster.local/ns/foo/sa/bar");
  const refused = client.fetchJWTSVID({ audience: ["b"] }, options);
  await expect(refused).rejects.toThrow("permission_denied");
});
