import { X509Certificate } from "node:crypto";
import { lstat, readFile } from "node:fs/promises";
import { connect, createServer } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const names = ["istiod.istio-system.svc", "istiod.example.com"];

let ca: HttpCa;
beforeAll(async () => {
  const gateways = [{ account: "istio-system/istiod", dns_names: names }];
  ca = await startHttpCa({}, { gateways });
});
afterAll(() => ca.close());

/** An agent in serving mode for this account. */
async function serving(account: string, changes: Readonly<Record<string, string>> = {}) {
  const folder = `${await temporaryFolder()}/tls`;
  const [namespace, name] = account.split(":");
  const running = await runAgent(ca, {
    RAMPART_SERVING_CERTS: folder,
    POD_NAMESPACE: namespace,
    SERVICE_ACCOUNT: name,
    RAMPART_TOKEN_FILE: await ca.tokenFile(account),
    ...changes,
  });
  const read = (file: string): Promise<string> => readFile(`${folder}/${file}`, "utf8");
  return { ...running, folder, read };
}

test("keeps a certificate with the DNS names that the CA grants, for a TLS server", async () => {
  const { agent, event, folder, read } = await serving("istio-system:istiod");
  await event("files-written");
  const [chain, key, roots] = await Promise.all(
    ["cert-chain.pem", "key.pem", "root-cert.pem"].map(read),
  );
  const leaf = new X509Certificate(chain ?? "");
  expect(leaf.subjectAltName).toBe(names.map((name) => `DNS:${name}`).join(", "));
  expect(agent.status()).toMatchObject({
    isReady: true,
    identities: [{ names: leaf.subjectAltName }],
  });
  // The whole set changes behind one link.
  expect((await lstat(`${folder}/key.pem`)).isSymbolicLink()).toBe(true);
  const server = createServer({ cert: chain ?? "", key: key ?? "" }, (socket) =>
    socket.end("hello"),
  );
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const client = connect({ port, host: "127.0.0.1", servername: names[1], ca: roots ?? "" });
  const greeting = await new Promise((resolve, reject) => {
    client.on("data", (data) => resolve(data.toString()));
    client.on("error", reject);
  });
  expect(greeting).toBe("hello");
});

test("is not ready, and says why, where the CA grants the account no names", async () => {
  const { agent, event } = await serving("foo:bar");
  expect(await event("renewal-failed")).toMatchObject({ fault: "authority-refused" });
  expect(agent.status()).toMatchObject({
    isReady: false,
    reasons: [expect.stringContaining("the CA answered")],
  });
});
