import type { X509Certificate } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { generateSubjectKey } from "../../../src/agent/identity/x509-svid.ts";
import { agentSecrets, withBundles, withCrls } from "../../../src/agent/secrets/agent-secrets.ts";
import type { Secret, SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { FederatedBundles } from "../../../src/agent/trust/bundles.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, trustDomain } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const list = (content: string): string =>
  `-----BEGIN X509 CRL-----\n${content}\n-----END X509 CRL-----\n`;
const roots: Secret = { kind: "roots", pem: "the roots" };

let file: string;
let folder: string;
let source: SecretSource;
let published: { isPublished: boolean; pem: string; changes: Subscribers };
let settled: Promise<void>;

beforeEach(async () => {
  folder = join(await temporaryFolder(), "istio/crl");
  file = join(folder, "ca-crl.pem");
  const plain: SecretSource = { load: async () => roots, watch: () => () => undefined };
  published = { isPublished: false, pem: "", changes: new Subscribers() };
  settled = Promise.resolve();
  const lists = { ...published, settled: () => settled };
  published = lists;
  source = withCrls(plain, lists, file, {
    debounceMilliseconds: 5,
    log: createEventRecorder(),
    metrics: { fileSecretFailed: () => undefined },
  });
});

async function write(content: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}

const withList = (content: string, isOfLeaves: boolean) => ({
  ...{ ...roots, revocation: { pem: list(content), isOfLeaves } },
});

test("CRLs are looked for at each load, and without any the roots are served all the same", async () => {
  expect(await source.load("ROOTCA")).toEqual(roots);
  await write("\n");
  expect(await source.load("ROOTCA")).toEqual(roots);
  for (const content of ["MQ==", "Mg=="]) {
    await write(list(content));
    expect(await source.load("ROOTCA")).toEqual(withList(content, false));
  }
  await rm(file);
  expect(await source.load("ROOTCA")).toEqual(roots);
});

test("CRLs belong to the roots of the agent's own trust domain alone", async () => {
  await write(list("MQ=="));
  expect(await source.load("file-root:/etc/client-ca.pem")).toEqual(roots);
});

test("CRLs come with the first roots: a load waits until the CA has been asked for them", async () => {
  const asked = Promise.withResolvers<void>();
  settled = asked.promise;
  const loading = source.load("ROOTCA");
  // Everything that needs no answer of the CA has happened after that.
  await new Promise((resolve) => setImmediate(resolve));
  Object.assign(published, { isPublished: true, pem: list("MQ==") });
  asked.resolve();
  expect(await loading).toMatchObject({ revocation: { pem: list("MQ==") } });
});

test("CRLs are not replaced by a file that holds none", async () => {
  await write("-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n");
  await expect(source.load("ROOTCA")).rejects.toThrow("holds no CRL");
});

test("CRLs notify of a file whose folder did not exist, and of its next version", async () => {
  const large = "MTIz".repeat(400_000);
  let wake = (): void => undefined;
  onTestFinished(source.watch("ROOTCA", () => wake()));
  // The last are larger than any certificate's.
  for (const content of ["MQ==", "Mg==", large, `${large}MTIz`]) {
    const changed = new Promise<void>((resolve) => (wake = resolve));
    await write(list(content));
    await changed;
  }
});

test("CRLs that the CA publishes are about leaves, and count in place of the file", async () => {
  await write(list("MQ=="));
  Object.assign(published, { isPublished: true, pem: list("Mg==") });
  expect(await source.load("ROOTCA")).toEqual(withList("Mg==", true));
  // Nobody can use these.
  Object.assign(published, { pem: "" });
  expect(await source.load("ROOTCA")).toEqual(roots);
});

test("CRLs that the CA publishes notify of a change", async () => {
  let changes = 0;
  const end = source.watch("ROOTCA", () => void changes++);
  published.changes.notify();
  end();
  published.changes.notify();
  expect(changes).toBe(1);
});

/** An agent's secrets, with an own identity whose first certificate brings this root, and one of a node's workload. */
async function secretsOf(root: X509Certificate | undefined) {
  const trust = new TrustRoots();
  const identityOf = async (name: string) => {
    const { privateKey } = await generateSubjectKey({ kind: "EC", curve: "P-256" });
    const chain = [(await createTestAuthority(name)).certificate];
    const awaitSvid = async () => {
      if (root) trust.restore("", [root]);
      return { chain, privateKey };
    };
    return { awaitSvid, changes: new Subscribers(), pem: chain.join("") };
  };
  const [own, workload] = [await identityOf("own"), await identityOf("workload")];
  const named = agentSecrets({
    configuration: { trustDomain: clusterLocal, isPkcs8: true, crlFile: undefined },
    identities: { find: (name: string) => (name === "workload" ? workload : undefined) },
    mounted: { find: () => undefined, changes: new Subscribers() },
    federation: new FederatedBundles(),
    revocation: {
      isPublished: false,
      pem: "",
      changes: new Subscribers(),
      settled: async () => {},
    },
    ...{ own, trust, log: createEventRecorder() },
  } as never);
  return { named, own, workload };
}

test("a name is that of one workload, and default the agent's own: no other gets its certificate", async () => {
  const { named, own, workload } = await secretsOf(undefined);
  expect(await named.load("default")).toMatchObject({ chainPem: own.pem });
  expect(await named.load("workload")).toMatchObject({ chainPem: workload.pem });
  await expect(named.load("stranger")).rejects.toThrow("no such resource");
  const seen: string[] = [];
  for (const name of ["default", "workload", "stranger"])
    onTestFinished(named.watch(name, () => seen.push(name)));
  for (const { changes } of [workload, own]) changes.notify();
  expect(seen).toEqual(["workload", "default"]);
});

test("roots are those of the first answer, for which a load waits, and never none", async () => {
  const { certificate } = await createTestAuthority();
  expect(await (await secretsOf(certificate)).named.load("ROOTCA")).toEqual({
    kind: "roots",
    pem: certificate.toString().trimEnd(),
  });
  await expect((await secretsOf(undefined)).named.load("ROOTCA")).rejects.toThrow("no roots");
});

/** A source of the own roots and of two foreign domains', and what notifies of either. */
async function domains() {
  const [foreign, third] = await Promise.all(
    ["other.test", "third.test"].map((name) => createTestAuthority(name, `spiffe://${name}`)),
  );
  if (!foreign || !third) throw new Error("unreachable");
  const own = new Subscribers();
  const plain: SecretSource = {
    load: async (name) => {
      if (name === "ROOTCA") return roots;
      throw new Error(`no ${name}`);
    },
    watch: (_, onChange) => own.add(onChange),
  };
  const current = new Map(
    [foreign, third].map((each) => [
      trustDomain(each.certificate.subject.replace("O=", "")),
      [each.certificate],
    ]),
  );
  const federation = { current, changes: new Subscribers() };
  const pems = [foreign, third].map(({ certificate }) => certificate.toString());
  return { source: withBundles(plain, clusterLocal, federation), own, federation, pems };
}

const ofOwn = { trustDomain: "cluster.local", pem: "the roots" };

test("SPIRE's names are the roots of the mesh, of a federated trust domain, and of all", async () => {
  const { source: named, pems } = await domains();
  const ofOther = { trustDomain: "other.test", pem: pems[0] };
  const ofThird = { trustDomain: "third.test", pem: pems[1] };
  expect(await named.load("spiffe://cluster.local")).toEqual(roots);
  expect(await named.load("spiffe://other.test")).toEqual({ kind: "bundles", bundles: [ofOther] });
  expect(await named.load("ALL")).toEqual({ kind: "bundles", bundles: [ofOwn, ofOther, ofThird] });
  await expect(named.load("spiffe://fourth.test")).rejects.toThrow(
    /no bundle of this trust domain/,
  );
  await expect(named.load("spiffe://OTHER.test")).rejects.toThrow(/no bundle of this trust domain/);
  await expect(named.load("spiffe://other.test/ns/a/sa/b")).rejects.toThrow(/no spiffe:/);
});

test("a trust domain whose bundle is empty leaves ALL, and its own name has nothing", async () => {
  const { source: named, federation } = await domains();
  federation.current.clear();
  expect(await named.load("ALL")).toEqual({ kind: "bundles", bundles: [ofOwn] });
  await expect(named.load("spiffe://other.test")).rejects.toThrow(/no bundle/);
});

test("SPIRE's names notify of the changes that concern them, and of none once the watch has ended", async () => {
  const { source: named, own, federation } = await domains();
  const seen: string[] = [];
  const ends = ["ALL", "spiffe://cluster.local", "spiffe://other.test"].map((name) =>
    named.watch(name, () => seen.push(name)),
  );
  own.notify();
  federation.changes.notify();
  const all = ["ALL", "spiffe://cluster.local", "ALL", "spiffe://other.test"];
  expect(seen.toSorted()).toEqual(all.toSorted());
  for (const end of ends) end();
  own.notify();
  federation.changes.notify();
  expect(seen).toHaveLength(4);
});
