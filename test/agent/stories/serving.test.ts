import { createPrivateKey, X509Certificate } from "node:crypto";
import { lstat, readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const names = ["istiod.istio-system.svc", "istiod.example.com"];

let ca: HttpCa;
beforeAll(async () => {
  const gateways = [{ account: "istio-system/istiod", dns_names: names }];
  ca = await startHttpCa({}, { gateways }, true);
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
  expect(leaf.checkPrivateKey(createPrivateKey(key ?? ""))).toBe(true);
  expect(leaf.verify(new X509Certificate(roots ?? "").publicKey)).toBe(true);
});

test("is not ready, and says why, where the CA grants the account no names", async () => {
  const { agent, event } = await serving("foo:bar");
  expect(await event("renewal-failed")).toMatchObject({ fault: "authority-refused" });
  expect(agent.status()).toMatchObject({
    isReady: false,
    reasons: [expect.stringContaining("the CA answered")],
  });
});
