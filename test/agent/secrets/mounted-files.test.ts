import { mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { Identities } from "../../../src/agent/identity/identities.ts";
import { generateSubjectKey, privateKeyPem } from "../../../src/agent/identity/x509-svid.ts";
import { agentSecrets } from "../../../src/agent/secrets/agent-secrets.ts";
import { MountedFiles } from "../../../src/agent/secrets/mounted-files.ts";
import { AgentMetrics } from "../../../src/agent/status/metrics.ts";
import { FederatedBundles } from "../../../src/agent/trust/bundles.ts";
import { Revocation } from "../../../src/agent/trust/revocation.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { createTestAuthority, expiresAt, issuedAt } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const root = await createTestAuthority();
const spiffeId = workload("foo", "bar");

async function createPair() {
  const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const chain = await root.issue(spiffeId, key.publicKey);
  return { chain, key: privateKeyPem(key.privateKey, true) };
}

const [one, other] = await Promise.all([createPair(), createPair()]);

let base: string;
beforeEach(async () => {
  base = await temporaryFolder();
});

/** Replaces a file by a rename, as the kubelet does. */
async function write(file: string, content: string): Promise<void> {
  const path = join(base, file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.new`, content);
  await rename(`${path}.new`, path);
}

function mountedFiles(options: { isRequired?: boolean; outputFolder?: string } = {}) {
  const [log, metrics] = [createEventRecorder(), new AgentMetrics()];
  const usual = {
    log,
    metrics,
    debounceMilliseconds: 5,
    isRequired: true,
    outputFolder: undefined,
  };
  const mounted = new MountedFiles({ ...usual, base, ...options });
  onTestFinished(() => mounted.close());
  return { mounted, log, metrics };
}

/** The secrets of an agent whose certificates come from files. */
function secretsOf({ mounted, log, metrics }: ReturnType<typeof mountedFiles>) {
  const trust = new TrustRoots();
  const configuration = parseConfiguration({ POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" });
  const identities = new Identities({
    issue: () => Promise.reject(new Error("the CA is not asked")),
    trust,
    policy: configuration.renewal,
    clock: () => issuedAt,
    random: () => 0,
    log,
    load: async () => undefined,
    store: async () => undefined,
  });
  return agentSecrets({
    mounted,
    log,
    metrics,
    trust,
    configuration,
    identities,
    own: undefined,
    federation: new FederatedBundles(),
    revocation: new Revocation({ trust, identities, metrics, log, clock: () => issuedAt }),
  });
}

test("mounted files are served when they come after the agent has started, and count as a change", async () => {
  const parts = mountedFiles();
  const source = secretsOf(parts);
  const names = ["default", "ROOTCA"];
  const changed = names.map(
    (name) => new Promise<void>((resolve) => onTestFinished(source.watch(name, resolve))),
  );
  expect(parts.mounted.faults(issuedAt)).toHaveLength(2);
  await write("etc/certs/cert-chain.pem", one.chain);
  await write("etc/certs/key.pem", one.key);
  await write("etc/certs/root-cert.pem", root.pem);
  await Promise.all(changed);
  expect(await source.load("default")).toMatchObject({ chainPem: one.chain });
  expect(await source.load("ROOTCA")).toMatchObject({ pem: root.pem });
  expect(parts.mounted.faults(issuedAt)).toEqual([]);
  expect(parts.mounted.leaf?.validToDate).toEqual(expiresAt);
});

test("a mounted key is a change once it fits its chain, whichever comes first", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  await write("etc/certs/cert-chain.pem", one.chain);
  await write("etc/certs/key.pem", one.key);
  const { mounted } = mountedFiles();
  let changes = 0;
  mounted.changes.add(() => changes++);
  for (const [file, content, count] of [
    ["key", other.key, 0],
    ["cert-chain", other.chain, 1],
    ["cert-chain", one.chain, 2],
    ["key", one.key, 3],
  ] as const) {
    await write(`etc/certs/${file}.pem`, content);
    await vi.advanceTimersByTimeAsync(200);
    expect(changes).toBe(count);
  }
});

test("mounted files take the place of the agent's own certificate only once they are there", async () => {
  const { mounted } = mountedFiles({ isRequired: false });
  expect(mounted.find("default")).toBeUndefined();
  expect(mounted.faults(issuedAt)).toEqual([]);
  await write("etc/certs/cert-chain.pem", one.chain);
  await write("etc/certs/key.pem", "");
  expect(mounted.find("default")).toBeUndefined();
  await write("etc/certs/key.pem", one.key);
  expect(mounted.find("default")).toMatchObject({ keyFile: join(base, "etc/certs/key.pem") });
  expect(mounted.find("ROOTCA")).toBeUndefined();
  // Not the files that the agent itself writes.
  const own = mountedFiles({ outputFolder: join(base, "etc/certs") }).mounted;
  expect(own.find("default")).toBeUndefined();
});

test("mounted files are the workload credentials of a platform if these are complete", async () => {
  const { mounted } = mountedFiles({ isRequired: false });
  const folder = "var/run/secrets/workload-spiffe-credentials";
  await write(`${folder}/cert-chain.pem`, one.chain);
  await write(`${folder}/key.pem`, one.key);
  expect(mounted.find("default")).toBeUndefined();
  await write(`${folder}/root-cert.pem`, root.pem);
  expect(mounted.find("default")).toMatchObject({ keyFile: join(base, folder, "key.pem") });
});

test.each([
  ["a key of another certificate", { key: other.key }, issuedAt, "is not the key of"],
  ["no key", { key: "no key" }, issuedAt, "cannot be read"],
  ["an expired certificate", {}, expiresAt, "expired"],
  ["a certificate of the future", {}, new Date(0), "is not valid yet"],
  ["no certificate among the roots", { roots: "junk" }, issuedAt, "holds no certificate"],
])("have the fault of %s", async (_what, files, now, fault) => {
  const { mounted } = mountedFiles();
  const { key, roots } = { key: one.key, roots: root.pem, ...files };
  await write("etc/certs/cert-chain.pem", one.chain);
  await write("etc/certs/key.pem", key);
  await write("etc/certs/root-cert.pem", roots);
  expect(mounted.faults(now)).toEqual([expect.stringContaining(fault)]);
  expect(mounted.leaf !== undefined).toBe(key === one.key);
});
