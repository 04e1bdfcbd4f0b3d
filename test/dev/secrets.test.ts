import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { prepareDevelopmentSecrets } from "../../dev/secrets.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { OperatorError } from "../../src/foundation/errors.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";

const issuer = "http://127.0.0.1:8788";
const now = new Date("2026-11-21T23:59:59Z");

const variablesIn = async (root: string) =>
  parseEnv(await readFile(join(root, ".dev.vars"), "utf8"));

test("writes secrets that the CA's own configuration accepts, for their owner alone", async () => {
  const root = await temporaryFolder();
  const { mintedKekId } = await prepareDevelopmentSecrets(root, issuer, now);
  const configuration = Configuration.parse(await variablesIn(root));
  expect(mintedKekId).toBe("dev-2026-11");
  expect((await stat(join(root, ".dev.vars"))).mode & 0o777).toBe(0o600);
  // A new checkout shows CRLs.
  expect(configuration.crl).toBeDefined();
  expect(configuration.keks.map((kek) => [kek.id, "octets" in kek && kek.octets.length])).toEqual([
    ["dev-2026-11", 32],
  ]);
  expect(configuration.issuers).toMatchObject([
    {
      issuer,
      audiences: ["istio-ca"],
      cluster: "Kubernetes",
      trusted_node_accounts: [{ namespace: "istio-system", name: "ztunnel" }],
    },
  ]);
});

test("makes another KEK for every checkout", async () => {
  const [one, other] = [await temporaryFolder(), await temporaryFolder()];
  await prepareDevelopmentSecrets(one, issuer, now);
  await prepareDevelopmentSecrets(other, issuer, now);
  const { KEK: first } = await variablesIn(one);
  const { KEK: second } = await variablesIn(other);
  expect(first).not.toBe(second);
});

test("never changes an existing file", async () => {
  const root = await temporaryFolder();
  await writeFile(join(root, ".dev.vars"), "MINE=1\n");
  const { mintedKekId } = await prepareDevelopmentSecrets(root, issuer, now);
  expect(mintedKekId).toBeUndefined();
  expect(await variablesIn(root)).toEqual({ MINE: "1" });
});

test("refuses to make a KEK while the state holds an authority under a lost one", async () => {
  const root = await temporaryFolder();
  await mkdir(join(root, ".wrangler/state/v3/kv/AUTHORITIES/blobs"), { recursive: true });
  await expect(prepareDevelopmentSecrets(root, issuer, now)).rejects.toThrow(OperatorError);
  await expect(stat(join(root, ".dev.vars"))).rejects.toThrow("ENOENT");
});

test("makes a KEK for a state that never held an authority", async () => {
  const root = await temporaryFolder();
  const bookkeeping = ".wrangler/state/v3/kv/miniflare-KVNamespaceObject";
  await mkdir(join(root, bookkeeping), { recursive: true });
  const { mintedKekId } = await prepareDevelopmentSecrets(root, issuer, now);
  expect(mintedKekId).toBe("dev-2026-11");
});
