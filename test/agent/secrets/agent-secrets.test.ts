import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { withCrls } from "../../../src/agent/secrets/agent-secrets.ts";
import type { Secret, SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
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
