import { chmod, mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadPluggedIn } from "../../../../src/cli/verbs/import/load.ts";
import { operatorErrorOf, writeFolder } from "../../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const cacerts = {
  "ca-cert.pem": "certificate",
  "ca-key.pem": "key",
  "cert-chain.pem": "chain",
  "root-cert.pem": "root",
};
const kubernetesTls = { "tls.crt": "certificate", "tls.key": "key", "ca.crt": "root" };

const without = (files: Readonly<Record<string, string>>, name: string) =>
  Object.fromEntries(Object.entries(files).filter(([key]) => key !== name));

test("reads a cacerts directory, each text with the name of its file", async () => {
  const folder = await writeFolder(await temporaryFolder(), cacerts);
  const source = (name: string, text: string) => ({ name: join(folder, name), text });
  expect(await loadPluggedIn(folder)).toEqual({
    certificate: source("ca-cert.pem", "certificate"),
    privateKey: source("ca-key.pem", "key"),
    chain: [source("cert-chain.pem", "chain")],
    roots: [source("root-cert.pem", "root")],
  });
});

test("reads a mounted kubernetes.io/tls Secret", async () => {
  const folder = await writeFolder(await temporaryFolder(), kubernetesTls);
  const material = await loadPluggedIn(folder);
  expect(material.certificate.text).toBe("certificate");
  expect(material.privateKey.text).toBe("key");
  expect(material.chain).toEqual([]);
  expect(material.roots.map(({ text }) => text)).toEqual(["root"]);
});

test("follows links as Kubernetes mounts a Secret", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "..2026"));
  await writeFolder(join(folder, "..2026"), cacerts);
  await symlink("..2026", join(folder, "..data"));
  for (const name of Object.keys(cacerts)) await symlink(`..data/${name}`, join(folder, name));
  expect((await loadPluggedIn(folder)).privateKey.text).toBe("key");
  await rename(join(folder, "..2026"), join(folder, "gone"));
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    expect.stringContaining("holds no CA"),
  ]);
});

test("takes an empty chain as absent, and keeps a CRL for a warning", async () => {
  const files = { ...cacerts, "cert-chain.pem": "\n", "ca-crl.pem": "list" };
  const material = await loadPluggedIn(await writeFolder(await temporaryFolder(), files));
  expect(material.chain).toEqual([]);
  expect(material.crl?.text).toBe("list");
});

test("adds the roots of another file", async () => {
  const files = { ...cacerts, "root-cert-combined.pem": "more roots" };
  const folder = await writeFolder(await temporaryFolder(), files);
  const { roots } = await loadPluggedIn(folder, join(folder, "root-cert-combined.pem"));
  expect(roots.map(({ text }) => text)).toEqual(["root", "more roots"]);
});

test("names every missing file at once", async () => {
  const folder = await writeFolder(await temporaryFolder(), { "ca-key.pem": "key" });
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    "incomplete CA bundle",
    `${folder}: ca-cert.pem is missing`,
    `${folder}: root-cert.pem is missing`,
    `${folder}: cert-chain.pem is missing (it may be empty)`,
  ]);
});

test.for([
  ...Object.keys(cacerts).map((name) => [name, without(cacerts, name)] as const),
  ...Object.keys(kubernetesTls).map((name) => [name, without(kubernetesTls, name)] as const),
])("refuses a directory without %s", async ([name, files]) => {
  const folder = await writeFolder(await temporaryFolder(), files);
  const lines = await operatorErrorOf(() => loadPluggedIn(folder));
  expect(lines[1]).toContain(`${name} is missing`);
});

test.for(["ca-cert.pem", "ca-key.pem", "root-cert.pem"])("refuses an empty %s", async (name) => {
  const folder = await writeFolder(await temporaryFolder(), { ...cacerts, [name]: " \n" });
  const [, line] = await operatorErrorOf(() => loadPluggedIn(folder));
  expect(line).toBe(`${join(folder, name)}: is empty`);
});

test("refuses two CAs in one directory", async () => {
  const folder = await writeFolder(await temporaryFolder(), { ...cacerts, ...kubernetesTls });
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    expect.stringContaining("holds two CAs"),
  ]);
});

test("refuses a file that is too large, not text, a directory or not readable", async () => {
  const folder = await writeFolder(await temporaryFolder(), without(cacerts, "ca-key.pem"));
  const key = join(folder, "ca-key.pem");
  await writeFile(key, "k".repeat(256 * 1024 + 1));
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    `${key} is not a file of at most 262144 octets`,
  ]);
  await writeFile(key, Buffer.from("3082ff", "hex"));
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    `${key}: is not text; PEM is needed, not DER`,
  ]);
  await chmod(key, 0);
  if (process.getuid?.() !== 0) {
    expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
      `${key} cannot be read: EACCES`,
    ]);
  }
  await rename(key, join(folder, "away"));
  await mkdir(key);
  expect(await operatorErrorOf(() => loadPluggedIn(folder))).toEqual([
    `${key} is not a file of at most 262144 octets`,
  ]);
});

test("refuses a path that leads nowhere, an empty file and missing combined roots", async () => {
  const folder = await writeFolder(await temporaryFolder(), { ...cacerts, "empty.yaml": "" });
  const nowhere = join(folder, "nowhere");
  const missing = [`${nowhere} does not exist`];
  expect(await operatorErrorOf(() => loadPluggedIn(nowhere))).toEqual(missing);
  expect(await operatorErrorOf(() => loadPluggedIn(folder, nowhere))).toEqual(missing);
  const empty = join(folder, "empty.yaml");
  expect(await operatorErrorOf(() => loadPluggedIn(empty))).toEqual([`${empty}: is empty`]);
});
