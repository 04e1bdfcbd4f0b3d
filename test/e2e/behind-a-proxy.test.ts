import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { type ServedCa, serveCa, servedName } from "../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { proxyPassword, startConnectProxy } from "../testkit/network/connect-proxy.ts";
import { startTlsServer } from "../testkit/network/loopback-tls.ts";
import { nativeClient } from "../testkit/network/native-grpc.ts";
import { serveToml, startRampart } from "../testkit/programs/rampart-process.ts";
import { lastingFolder, temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const issuer = "https://a.test";
const key = await createTokenKey("ES256", "k1");
const tokenOf = (account: string) => mintAccountToken(key, issuer, account, new Date());

/** A CA whose name no resolver knows: a program reaches it by the proxy or not at all. */
let ca: ServedCa;
let access: { readonly UPSTREAM_CA_FILE: string; readonly TOKEN_FILE: string };

beforeAll(async () => {
  const gateways = [{ account: "istio-system/rampart-gateway", dns_names: [servedName] }];
  ca = await serveCa({
    SERVING_NAMES: ["ca.example"],
    ISSUERS: [{ issuer, jwks: jwksOf(key), gateways }],
  });
  const folder = await lastingFolder();
  access = { UPSTREAM_CA_FILE: join(folder, "roots.pem"), TOKEN_FILE: join(folder, "token") };
  await writeFile(access.UPSTREAM_CA_FILE, await ca.bundle());
  await writeFile(access.TOKEN_FILE, await tokenOf("istio-system:rampart-gateway"));
  return ca.end;
});

const startProxy = () => startConnectProxy({ "ca.example": ca.port });

test.each([
  ["native gRPC", "ca.example:15012", "https://ca.example:15012"],
  ["Connect", "https://ca.example", "https://ca.example"],
])(
  "an agent gets its certificate, the bundle and CRLs through the proxy, by %s",
  async (_by, CA_ADDR, origin) => {
    const proxy = await startProxy();
    const folder = await temporaryFolder();
    await writeFile(join(folder, "token"), await tokenOf("foo:bar"));
    const agent = startRampart(["agent", "run"], {
      HTTPS_PROXY: proxy.url,
      CA_ADDR,
      CA_ROOT_CA: access.UPSTREAM_CA_FILE,
      POD_NAMESPACE: "foo",
      SERVICE_ACCOUNT: "bar",
      RAMPART_TOKEN_FILE: join(folder, "token"),
      RAMPART_SDS_SOCKET: join(folder, "sds"),
      RAMPART_STATUS_ADDR: "127.0.0.1:0",
      RAMPART_BUNDLE_URL: `${origin}/bundle.json`,
    });
    const output = () => agent.lines.join("\n");
    await eventually(() => expect(output()).toMatch(/certificate-obtained/));
    await eventually(() => expect(output()).toMatch(/bundle-read/));
    await eventually(() => expect(proxy.asked.length).toBeGreaterThanOrEqual(3));
    expect(output()).not.toContain("renewal-failed");
    expect(new Set(proxy.asked)).toEqual(
      new Set([new URL(origin).port ? "ca.example:15012" : "ca.example:443"]),
    );
    expect(output()).toContain(`"detail":"TLS goes through ${proxy.shown} (HTTPS_PROXY)"`);
    expect(output()).not.toContain(proxyPassword);
    expect(output()).not.toContain(encodeURIComponent(proxyPassword));
  },
);

test("serve says that the proxy refuses it, without the password", async () => {
  const proxy = await startProxy();
  const { origin } = await startTlsServer((_request, response) => response.end("{}"));
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const ISSUERS = [{ issuer: origin, jwks_uri: "https://keys.example/jwks" }];
  await writeFile(
    config,
    serveToml(join(folder, "store"), { ISSUERS, PROPAGATION_INTERVAL: "0s" }),
  );
  const HTTPS_PROXY = proxy.url.replace("rampart:", "mallory:");
  const serve = startRampart(["serve", "-c", config], { HTTPS_PROXY });
  const client = nativeClient(await serve.portOf("gRPC"), servedName, {
    roots: await (await fetch(`http://${await serve.addressOf("monitoring")}/bundle.pem`)).text(),
  });
  onTestFinished(client.close);
  const token = await mintAccountToken(key, origin, "foo:bar", new Date());
  const { csrPem: csr } = await createWorkload();
  const call = client.createCertificate({ csr }, { authorization: `Bearer ${token}` });
  expect(await call).toMatchObject({ code: "Unavailable" });
  const output = () => serve.lines.join("\n");
  await eventually(() => expect(output()).toMatch(/issuer-keys-unreachable.*PROXY_STATUS_407/));
  expect(output()).not.toContain(encodeURIComponent(proxyPassword));
});
