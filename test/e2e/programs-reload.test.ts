import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { serveCa, servedName } from "../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { nativeClient } from "../testkit/network/native-grpc.ts";
import { startRelay } from "../testkit/network/relay.ts";
import { type ProgramProcess, startProgram } from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const issuer = "https://a.test";

/** A CA, with the files by which a gateway or a signer reaches it. */
async function startUpstream() {
  const key = await createTokenKey("ES256", "k1");
  const gateways = [{ account: "istio-system/rampart-gateway", dns_names: [servedName] }];
  const ca = await serveCa({
    SERVING_NAMES: ["localhost"],
    ISSUERS: [{ issuer, jwks: jwksOf(key), gateways }],
  });
  onTestFinished(ca.end);
  const folder = await temporaryFolder();
  const [roots, token] = [join(folder, "roots.pem"), join(folder, "token")];
  const tokenOf = (account: string) => mintAccountToken(key, issuer, account, new Date());
  await writeFile(roots, await ca.bundle());
  await writeFile(token, await tokenOf("istio-system:rampart-gateway"));
  return { ca, tokenOf, access: { UPSTREAM_CA_FILE: roots, TOKEN_FILE: token } };
}

const generation = ({ metric }: ProgramProcess) => metric("rampart_configuration_generation");

/** A wrong file changes nothing and is told of, and SIGHUP has the file read at once. */
async function expectRefusalAndSignal(
  running: ProgramProcess,
  current: Readonly<Record<string, unknown>>,
): Promise<void> {
  const before = await generation(running);
  await running.replace({ ...current, NOBODY_KNOWS: 1 });
  running.send("SIGHUP");
  await eventually(async () =>
    expect(await running.metric("rampart_configuration_reload_success")).toBe(0),
  );
  expect((await running.readiness()).reasons).toContainEqual(
    expect.stringMatching(/^the configuration file is not in force: .*NOBODY_KNOWS/),
  );
  expect(await generation(running)).toBe(before);
  const changed = { ...current, MONITORING_LISTEN: "127.0.0.1:1" };
  await running.replace(changed);
  running.send("SIGHUP");
  await eventually(async () =>
    expect((await running.readiness()).reasons).toContain(
      "keys of the configuration have changed that need a restart: MONITORING_LISTEN",
    ),
  );
  expect(await running.metric("rampart_configuration_reload_success")).toBe(1);
}

test("a gateway goes over to another address of the CA, and answers all the while", async () => {
  const { ca, tokenOf, access } = await startUpstream();
  const [former, next] = [await startRelay(ca.port), await startRelay(ca.port)];
  onTestFinished(() => {
    former.close();
    next.close();
  });
  const values = { ...access, LISTEN: "127.0.0.1:0", UPSTREAM: `https://localhost:${former.port}` };
  const gateway = await startProgram("gateway", values);
  const client = nativeClient(await gateway.portOf("gRPC"), servedName, {
    roots: await ca.bundle(),
  });
  onTestFinished(client.close);
  const authorization = `Bearer ${await tokenOf("foo:bar")}`;
  const { csrPem: csr } = await createWorkload();
  const call = () => client.createCertificate({ csr }, { authorization });
  expect(await call()).toHaveProperty("certChain");
  const current = { ...values, UPSTREAM: `https://localhost:${next.port}` };
  await gateway.replace(current);
  await eventually(async () => expect(await generation(gateway)).toBe(2));
  former.cut();
  expect(await call()).toHaveProperty("certChain");
  await expectRefusalAndSignal(gateway, current);
  expect(await call()).toHaveProperty("certChain");
  expect(await gateway.end()).toBe(0);
});

test("a signer goes over to other signer names, and gives its lease to itself", async () => {
  const { ca, access } = await startUpstream();
  const holders: string[] = [];
  let lease: { spec: { holderIdentity?: string } } | undefined;
  const selectors = new Set<string>();
  const api = await startLoopbackServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://api.test");
    if (pathname.includes("/leases")) {
      if (request.method === "GET" && !lease) return void response.writeHead(404).end("{}");
      if (request.method !== "GET") {
        lease = JSON.parse(Buffer.concat(await request.toArray()).toString());
        holders.push(lease?.spec.holderIdentity ?? "");
      }
      const metadata = { name: "rampart-signer", resourceVersion: `${holders.length}` };
      return void response.end(JSON.stringify({ ...lease, metadata }));
    }
    selectors.add(searchParams.get("fieldSelector") ?? "");
    // A watch stays open and tells nothing.
    if (searchParams.has("watch")) return void response.writeHead(200).flushHeaders();
    const metadata = { resourceVersion: "1" };
    response.end(JSON.stringify({ kind: "List", metadata, items: [] }));
  });
  const services = [{ account: "shop/web", dns_names: ["web.shop.svc"] }];
  const values = {
    ...access,
    UPSTREAM: `https://localhost:${ca.port}`,
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: access.TOKEN_FILE,
    SIGNERS: [{ name: "mesh.example.com/one", services }],
  };
  const signer = await startProgram("signer", values);
  const asksFor = (name: string) =>
    expect([...selectors]).toContain(`spec.signerName=mesh.example.com/${name}`);
  await eventually(() => asksFor("one"));
  const current = { ...values, SIGNERS: [{ name: "mesh.example.com/two", services }] };
  await signer.replace(current);
  await eventually(() => asksFor("two"));
  expect(await generation(signer)).toBe(2);
  const [first, ...later] = holders.filter((holder, i) => holder !== holders[i - 1]);
  expect([first, ...later]).toEqual([
    expect.any(String),
    "",
    expect.not.stringMatching(first ?? ""),
  ]);
  await eventually(async () => expect(await signer.metric("rampart_signer_leading")).toBe(1));
  await expectRefusalAndSignal(signer, current);
  expect(await signer.end()).toBe(0);
});
