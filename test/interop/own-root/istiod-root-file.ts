import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { until } from "../../testkit/time/until.ts";
import { startIstiod } from "../agent/xds/istiod.ts";

/**
 * An istiod that is no CA gets another root in `--caCertFile`, and the same certificate: it reads the file again, as
 * docs/how-to/point-istio-at-rampart.md says. Without a cluster, its log alone shows that.
 */
export async function playRootFile(program: string, folder: string): Promise<string> {
  await mkdir(join(folder, "config"), { recursive: true });
  const [authority, next] = [await createTestAuthority("first"), await createTestAuthority("next")];
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const leaf = await authority.issue("", createPublicKey(privateKey), {
    hosts: ["istiod.istio-system.svc"],
    notBefore: new Date(),
    notAfter: new Date(Date.now() + 3_600_000),
  });
  const files = {
    tlsCertFile: leaf,
    tlsKeyFile: privateKey.export({ type: "pkcs8", format: "pem" }),
    caCertFile: authority.pem,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const istiod = await startIstiod({
    program,
    folder,
    issuer: "https://cluster.test",
    variables: { ENABLE_CA_SERVER: "false" },
    words: Object.keys(files).map((name) => `--${name}=${join(folder, name)}`),
  });
  const reloads = async (): Promise<number> =>
    (await readFile(istiod.logFile, "utf8")).split("Istiod certificates are reloaded").length - 1;
  try {
    const before = await reloads();
    await writeFile(join(folder, "caCertFile"), authority.pem + next.pem);
    await until("a reload", async () => (await reloads()) > before);
    return `reload ${await reloads()}, of the root alone`;
  } finally {
    await istiod.end();
  }
}
