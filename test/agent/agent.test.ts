import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HttpCa, startHttpCa } from "../testkit/agent/http-ca.ts";
import { runAgent } from "../testkit/agent/running-agent.ts";
import { pemsOf, SdsStream } from "../testkit/agent/sds-client.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

let ca: HttpCa;
beforeAll(async () => {
  // Its only root is looked at.
  ca = await startHttpCa({}, {}, true);
});
afterAll(() => ca.close());

test("serves its certificate, its key and the roots to a proxy", async () => {
  const { sdsSocket } = await runAgent(ca);
  const stream = new SdsStream(sdsSocket);
  stream.subscribe("default", "ROOTCA");
  const [own, roots] = await stream.secrets();
  const [chainPem = "", keyPem = ""] = own ? pemsOf(own) : [];
  const [rootPem = ""] = roots ? pemsOf(roots) : [];
  const leaf = new X509Certificate(chainPem);
  expect(leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/foo/sa/bar");
  expect(leaf.checkPrivateKey(createPrivateKey(keyPem))).toBe(true);
  expect(leaf.verify(new X509Certificate(rootPem).publicKey)).toBe(true);
  expect(keyPem).toContain("BEGIN EC PRIVATE KEY");
  stream.end();
});

test("pushes a renewed certificate to the streams that watch it", async () => {
  // It is renewed after a tenth of its life, so even a slow machine serves it alive.
  const variables = { SECRET_TTL: "30s", SECRET_GRACE_PERIOD_RATIO: "0.9" };
  const { sdsSocket } = await runAgent(ca, variables);
  const stream = new SdsStream(sdsSocket);
  stream.subscribe("default");
  const [first] = await stream.secrets();
  stream.acknowledge("default");
  const [second] = await stream.secrets();
  expect(first && second && pemsOf(first)[0]).not.toBe(second && pemsOf(second)[0]);
  stream.end();
});

test("writes a sidecar's files, and runs a command when they change", async () => {
  const folder = await temporaryFolder();
  const { event } = await runAgent(ca, {
    OUTPUT_CERTS: `${folder}/out`,
    RAMPART_ON_CHANGE: `echo changed >> ${folder}/changes`,
  });
  await event("on-change-run");
  expect(await readFile(`${folder}/changes`, "utf8")).toBe("changed\n");
  const [chain, roots, key] = await Promise.all(
    ["cert-chain.pem", "root-cert.pem", "key.pem"].map((name) =>
      readFile(`${folder}/out/${name}`, "utf8"),
    ),
  );
  const leaf = new X509Certificate(chain ?? "");
  expect(leaf.verify(new X509Certificate(roots ?? "").publicKey)).toBe(true);
  expect(chain?.split("BEGIN CERTIFICATE")).toHaveLength(3);
  expect(key).toContain("PRIVATE KEY");
});

test("logs a failing command", async () => {
  const folder = await temporaryFolder();
  const { event } = await runAgent(ca, {
    OUTPUT_CERTS: `${folder}/out`,
    RAMPART_OUTPUT_ATOMIC: "true",
    RAMPART_ON_CHANGE: "exit 3",
  });
  expect(await event("on-change-failed")).toMatchObject({ detail: "ended with 3" });
});
