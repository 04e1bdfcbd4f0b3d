import { once } from "node:events";
import { stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CertificateCache } from "../../../src/agent/identity/certificate-cache.ts";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { pemsOf, SdsStream, security, workloadApiClient } from "../../testkit/agent/sds-client.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let ca: HttpCa;
beforeAll(async () => {
  const table = { trusted_node_accounts: ["mesh/node"], node_reach: "anywhere" };
  ca = await startHttpCa({ JWT_ISSUER: "https://ca.test" }, { ...table, jwt_audiences: ["a"] });
  await ca.cron();
});
afterAll(() => ca.close());

test("gets certificates for a node's workloads, and serves each under its SPIFFE ID", async () => {
  const [feed, folder] = [`${await temporaryFolder()}/workloads`, await temporaryFolder()];
  await writeFile(feed, "1 foo a\n2 foo a\n3 foo b\n");
  const running = await runAgent(ca, {
    RAMPART_CACHE: folder,
    RAMPART_TOKEN_FILE: await ca.tokenFile("mesh:node"),
    RAMPART_WORKLOADS: feed,
    RAMPART_LINGER: "1ms",
  });
  await running.event("certificate-obtained", 2);
  const stream = new SdsStream(running.sdsSocket);
  const ids = ["a", "b"].map((name) => `spiffe://cluster.local/ns/foo/sa/${name}`);
  stream.subscribe(...ids, "ROOTCA");
  const ports = { clock: () => new Date(), log: createEventRecorder() };
  const cache = await CertificateCache.open({ folder, keyFile: undefined }, ports);
  const kept = async () => {
    const all = await Promise.all(ids.map((id) => cache.load(id as SpiffeId)));
    return all.map((each) => each !== undefined);
  };
  await eventually(async () => expect(await kept()).toEqual([true, true]));
  const secrets = await stream.secrets();
  expect(secrets.map(({ name }) => name)).toEqual([...ids, "ROOTCA"]);
  expect(secrets[0] && pemsOf(secrets[0])[1]).toContain("PRIVATE KEY");
  await writeFile(feed, "1 foo a\n");
  await running.event("identity-dropped");
  await expect(stream.next()).rejects.toThrow("no such resource");
  await eventually(async () => expect(await kept()).toEqual([true, false]));
});

test("is ready once a socket has listed the workloads and they have certificates", async () => {
  const path = `${await temporaryFolder()}/feed`;
  const { agent, event } = await runAgent(ca, {
    RAMPART_TOKEN_FILE: await ca.tokenFile("mesh:node"),
    RAMPART_WORKLOADS: `unix:${path}`,
  });
  expect(agent.status().reasons).toEqual([expect.stringContaining("no list")]);
  const socket = connect(path);
  const answered = once(socket, "data");
  const workloads = [{ uid: "1", namespace: "foo", serviceAccount: "a" }];
  socket.write(`${JSON.stringify({ op: "sync", workloads })}\n`);
  await answered;
  await event("certificate-obtained");
  expect(agent.status()).toMatchObject({ isReady: true, identities: [{}] });
  socket.destroy();
});

test("a node proxy gets tokens for the node's workloads alone, by a socket of its own user", async () => {
  const folder = await temporaryFolder();
  await writeFile(`${folder}/workloads`, "1 foo a\n");
  const { event } = await runAgent(ca, {
    RAMPART_TOKEN_FILE: await ca.tokenFile("mesh:node"),
    RAMPART_WORKLOADS: `${folder}/workloads`,
    RAMPART_WORKLOAD_API_SOCKET: `${folder}/api`,
  });
  await event("certificate-obtained");
  await event("bundle-read");
  expect((await stat(`${folder}/api`)).mode & 0o777).toBe(0o600);
  const client = workloadApiClient(`${folder}/api`);
  const [own, other] = ["a", "b"].map((name) => `spiffe://cluster.local/ns/foo/sa/${name}`);
  const ask = (spiffeId = "", audience = ["a"]) =>
    client.fetchJWTSVID({ audience, spiffeId }, security);
  const { svids } = await ask(own);
  const { svid = "" } = svids[0] ?? {};
  const validated = await client.validateJWTSVID({ audience: "a", svid }, security);
  expect(validated).toMatchObject({ spiffeId: own, claims: { iss: "https://ca.test", sub: own } });
  await expect(ask(other)).rejects.toThrow("permission_denied");
  await expect(ask()).rejects.toThrow("invalid_argument");
  await expect(ask(own, ["b"])).rejects.toThrow("permission_denied");
  const certificates = client.fetchX509SVID({}, security)[Symbol.asyncIterator]();
  await expect(certificates.next()).rejects.toThrow("permission_denied");
});
