import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { withBundles, withCrls } from "../../../src/agent/secrets/agent-secrets.ts";
import type { Secret, SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
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
  const lists = {
    get isPublished() {
      return published.isPublished;
    },
    get pem() {
      return published.pem;
    },
    changes: published.changes,
    settled: () => settled,
  };
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

test("CRLs are none while the file is missing or empty: the roots are served all the same", async () => {
  expect(await source.load("ROOTCA")).toEqual(roots);
  await write("\n");
  expect(await source.load("ROOTCA")).toEqual(roots);
});

test("CRLs are looked for at each load", async () => {
  await write(list("MQ=="));
  expect(await source.load("ROOTCA")).toEqual({
    ...roots,
    revocation: { pem: list("MQ=="), isOfLeaves: false },
  });
  await write(list("Mg=="));
  expect(await source.load("ROOTCA")).toEqual({
    ...roots,
    revocation: { pem: list("Mg=="), isOfLeaves: false },
  });
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
  published = { ...published, isPublished: true, pem: list("MQ==") };
  asked.resolve();
  expect(await loading).toMatchObject({ revocation: { pem: list("MQ==") } });
});

test("CRLs are not replaced by a file that holds none", async () => {
  await write("-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n");
  await expect(source.load("ROOTCA")).rejects.toThrow("holds no CRL");
});

test("CRLs notify of a file whose folder did not exist, and of its next version", async () => {
  let wake = (): void => undefined;
  const changed = () => new Promise<void>((resolve) => (wake = resolve));
  onTestFinished(source.watch("ROOTCA", () => wake()));
  const appeared = changed();
  await write(list("MQ=="));
  await appeared;
  const replaced = changed();
  await write(list("Mg=="));
  await replaced;
});

test("CRLs that the CA publishes are about leaves, and count in place of the file", async () => {
  await write(list("MQ=="));
  published = { ...published, isPublished: true, pem: list("Mg==") };
  expect(await source.load("ROOTCA")).toEqual({
    ...roots,
    revocation: { pem: list("Mg=="), isOfLeaves: true },
  });
});

test("CRLs that the CA publishes and nobody can use leave the roots as they are", async () => {
  await write(list("MQ=="));
  published = { ...published, isPublished: true, pem: "" };
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

test("CRLs notify of a file that is larger than any certificate's", async () => {
  const large = "MTIz".repeat(400_000);
  await write(list(large));
  const { promise, resolve } = Promise.withResolvers<void>();
  onTestFinished(source.watch("ROOTCA", resolve));
  await write(list(`${large}MTIz`));
  await promise;
});

/** A source of the own roots and of one foreign domain's, and what notifies of either. */
async function domains() {
  const foreign = await createTestAuthority("foreign", "spiffe://other.test");
  const own = new Subscribers();
  const plain: SecretSource = {
    load: async (name) => {
      if (name === "ROOTCA") return roots;
      throw new Error(`no ${name}`);
    },
    watch: (_, onChange) => own.add(onChange),
  };
  const current = new Map([[trustDomain("other.test"), [foreign.certificate]]]);
  const federation = { current, changes: new Subscribers() };
  const pem = foreign.certificate.toString();
  return { source: withBundles(plain, clusterLocal, federation), own, federation, pem };
}

const ofOwn = { trustDomain: "cluster.local", pem: "the roots" };

test("SPIRE's names are the roots of the mesh, of a federated trust domain, and of all", async () => {
  const { source: named, pem } = await domains();
  const ofOther = { trustDomain: "other.test", pem };
  expect(await named.load("spiffe://cluster.local")).toEqual(roots);
  expect(await named.load("spiffe://other.test")).toEqual({ kind: "bundles", bundles: [ofOther] });
  expect(await named.load("ALL")).toEqual({ kind: "bundles", bundles: [ofOwn, ofOther] });
  await expect(named.load("spiffe://third.test")).rejects.toThrow(/no bundle of this trust domain/);
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
