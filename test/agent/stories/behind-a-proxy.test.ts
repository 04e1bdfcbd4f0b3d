import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { environmentIn } from "../../testkit/agent/running-agent.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { proxyPassword, startConnectProxy } from "../../testkit/network/connect-proxy.ts";
import { startRampart } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const issuer = "https://a.test";

// No resolver knows the name of the CA: the agent reaches it by the proxy or not at all.
test("an agent gets its certificate, the bundle and CRLs through the proxy, and logs no password", async () => {
  const key = await createTokenKey("ES256", "k1");
  const ca = await serveCa({
    SERVING_NAMES: ["ca.example"],
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
  });
  onTestFinished(ca.end);
  const proxy = await startConnectProxy({ "ca.example": ca.port });
  const folder = await temporaryFolder();
  await writeFile(join(folder, "root-cert.pem"), await ca.bundle());
  await writeFile(
    join(folder, "token"),
    await mintAccountToken(key, issuer, "foo:bar", new Date()),
  );
  const agent = startRampart(["agent", "run"], {
    ...environmentIn(folder, "ca.example:15012"),
    HTTPS_PROXY: proxy.url,
  });
  const output = () => agent.lines.join("\n");
  await eventually(() => expect(output()).toMatch(/certificate-obtained/));
  await eventually(() => expect(output()).toMatch(/bundle-read/));
  await eventually(() => expect(proxy.asked.length).toBeGreaterThanOrEqual(3));
  expect(output()).not.toContain("renewal-failed");
  expect([...new Set(proxy.asked)]).toEqual(["ca.example:15012"]);
  expect(output()).toContain(`"detail":"TLS goes through ${proxy.shown} (HTTPS_PROXY)"`);
  expect(output()).not.toContain(proxyPassword);
  expect(output()).not.toContain(encodeURIComponent(proxyPassword));
});
