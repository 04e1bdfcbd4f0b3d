import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { issuerTables } from "../contract/service-under-test.ts";
import { startTestAgent } from "../testkit/agent/running-agent.ts";
import { pemsOf, SdsStream } from "../testkit/agent/sds-client.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { randomKek } from "../testkit/configuration.ts";
import { parseVerbLog } from "../testkit/log/log-lines.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { createOperatorFolder, rampart } from "../testkit/programs/command-line.ts";
import { serveToml, startServe } from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;

/** A request for the bundle, and the answer that the server may hold. */
interface Held {
  readonly etag: string | undefined;
  readonly answer: Promise<string>;
  isAnswered: boolean;
}

/** Forwards requests to a server, and records those for the bundle: the agent asks for CRLs as well. */
async function startBundleProxy(port: number) {
  const asked: Held[] = [];
  const { origin } = await startLoopbackServer(async ({ url, headers }, response) => {
    const { promise: answer, resolve } = Promise.withResolvers<string>();
    const held: Held = { etag: headers["if-none-match"], answer, isAnswered: false };
    if (url?.startsWith("/bundle.json")) asked.push(held);
    const upstream = await fetch(`http://127.0.0.1:${port}${url}`, {
      headers: headers as Record<string, string>,
    });
    const body = await upstream.text();
    held.isAnswered = true;
    resolve(body);
    response.writeHead(upstream.status, Object.fromEntries(upstream.headers)).end(body);
  });
  return { asked, url: `${origin}/bundle.json` };
}

test("a taint in the store of a running server reaches a workload by the answer that the server held", async () => {
  const kek = randomKek();
  const folder = await temporaryFolder();
  const ISSUERS = [{ issuer, jwks: jwksOf(tokenKey) }];
  const toml = serveToml(join(folder, "store"), { PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS });
  const operator = await createOperatorFolder(toml);
  const server = await startServe(operator.config, kek);
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await mintAccountToken(tokenKey, issuer, "foo:bar", new Date()));
  const socket = join(folder, "sds");
  const proxy = await startBundleProxy(server.plaintextPort);
  const { event } = await startTestAgent({
    CA_ADDR: `http://127.0.0.1:${server.plaintextPort}`,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: tokenFile,
    RAMPART_SDS_SOCKET: socket,
    RAMPART_BUNDLE_URL: proxy.url,
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  await event("bundle-read");
  const stream = new SdsStream(socket);
  onTestFinished(() => stream.end());
  stream.subscribe("ROOTCA");
  const rootsOf = async (): Promise<string> => (await stream.secrets()).flatMap(pemsOf).join();
  const before = await rootsOf();
  stream.acknowledge("ROOTCA");
  const readiness = await fetch(`http://127.0.0.1:${server.monitoringPort}/readyz`);
  const { authority } = (await readiness.json()) as { authority: string };

  await eventually(() => expect(proxy.asked).toHaveLength(2));
  const [, waiting] = proxy.asked;
  const words = `authority taint ${authority} --root immediately --yes -c ${operator.config}`;
  expect(waiting).toMatchObject({ etag: expect.any(String), isAnswered: false });
  const { code, stderr } = await rampart(operator, words, { KEK: kek });
  expect(parseVerbLog(stderr)).toContainEqual(
    expect.objectContaining({ event: "authority-tainted", level: "warning" }),
  );
  expect(code).toBe(0);
  const after = await rootsOf();
  expect(after).not.toBe(before);
  const { keys } = JSON.parse((await waiting?.answer) ?? "");
  expect(keys.map(({ x5c }: { x5c: string[] }) => x5c[0])).toEqual(derOf(after));
});

// Istio's own package for a virtual machine: the certificate that the agent wrote authenticates the next request.
test("a machine with a certificate and a token outlives the sudden taint of the certificate's authority", async () => {
  const kek = randomKek();
  const folder = await temporaryFolder();
  const ISSUERS = [{ issuer, jwks: jwksOf(tokenKey) }];
  const toml = serveToml(join(folder, "store"), { SERVING_NAMES: ["localhost"], ISSUERS });
  const operator = await createOperatorFolder(toml);
  const server = await startServe(operator.config, kek);
  const monitoring = `http://127.0.0.1:${server.monitoringPort}`;
  const roots = async () => (await fetch(`${monitoring}/bundle.pem`)).text();
  const rootFile = join(folder, "root-cert.pem");
  await writeFile(rootFile, await roots());
  const certificates = join(folder, "certs");
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await mintAccountToken(tokenKey, issuer, "foo:bar", new Date()));
  const { agent, event, events } = await startTestAgent({
    CA_ADDR: `grpc+https://localhost:${server.port}`,
    CA_ROOT_CA: rootFile,
    PROV_CERT: certificates,
    OUTPUT_CERTS: certificates,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: tokenFile,
    RAMPART_SDS_SOCKET: join(folder, "sds"),
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  await Promise.all([event("bundle-read"), event("files-written")]);
  for (let turn = 1; turn <= 2; turn++) {
    const readiness = await fetch(`${monitoring}/readyz`);
    const { authority } = (await readiness.json()) as { authority: string };
    const words = `authority taint ${authority} --root immediately --yes -c ${operator.config}`;
    expect((await rampart(operator, words, { KEK: kek })).code).toBe(0);
    await event("authority-withdrawn", turn);
    await event("certificate-obtained", turn + 1);
    await eventually(async () => {
      const after = new X509Certificate(await roots());
      const leaf = new X509Certificate(await readFile(join(certificates, "cert-chain.pem")));
      expect(leaf.verify(after.publicKey)).toBe(true);
    });
  }
  expect(events.filter(({ event }) => /^renewal-failed|^csr-retried/.test(event))).toEqual([]);
  await eventually(() => expect(agent.status()).toMatchObject({ isReady: true, reasons: [] }));
  expect(server.lines.join()).not.toContain("client-certificate-refused");
});

/** The certificates of a PEM text, in base64. */
const derOf = (pem: string): string[] =>
  (pem.match(/(?<=-----BEGIN CERTIFICATE-----)[^-]+/g) ?? []).map((text) =>
    text.replace(/\s/g, ""),
  );
