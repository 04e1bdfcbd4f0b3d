import { readFileSync } from "node:fs";
import { chmod, mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { loadPluggedIn, parseSecretManifest } from "../../../../src/cli/verbs/import/load.ts";
import { operatorErrorOf, writeFolder } from "../../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const cacerts = {
  "ca-cert.pem": "certificate",
  "ca-key.pem": "key",
  "cert-chain.pem": "chain",
  "root-cert.pem": "root",
};
const kubernetesTls = { "tls.crt": "certificate", "tls.key": "key", "ca.crt": "root" };

const folderOf = async (files: Readonly<Record<string, string>>): Promise<string> =>
  writeFolder(await temporaryFolder(), files);
const refusalIn = (folder: string, roots?: string) =>
  operatorErrorOf(() => loadPluggedIn(folder, roots));

const without = (files: Readonly<Record<string, string>>, name: string) =>
  Object.fromEntries(Object.entries(files).filter(([key]) => key !== name));

test("reads a cacerts directory, each text with the name of its file", async () => {
  const folder = await folderOf(cacerts);
  const source = (name: string, text: string) => {
    const path = join(folder, name);
    return { name: path, path, text };
  };
  expect(await loadPluggedIn(folder)).toEqual({
    certificate: source("ca-cert.pem", "certificate"),
    privateKey: source("ca-key.pem", "key"),
    chain: [source("cert-chain.pem", "chain")],
    roots: [source("root-cert.pem", "root")],
  });
});

test("reads a mounted kubernetes.io/tls Secret", async () => {
  const folder = await folderOf(kubernetesTls);
  expect(await loadPluggedIn(folder)).toMatchObject({
    certificate: { text: "certificate" },
    privateKey: { text: "key" },
    chain: [],
    roots: [{ text: "root" }],
  });
});

test("follows links as Kubernetes mounts a Secret", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "..2026"));
  await writeFolder(join(folder, "..2026"), cacerts);
  await symlink("..2026", join(folder, "..data"));
  for (const name of Object.keys(cacerts)) await symlink(`..data/${name}`, join(folder, name));
  expect((await loadPluggedIn(folder)).privateKey.text).toBe("key");
  await rename(join(folder, "..2026"), join(folder, "gone"));
  expect(await refusalIn(folder)).toEqual([expect.stringContaining("holds no CA")]);
});

test("takes an empty chain as absent, and keeps a CRL for a warning", async () => {
  const files = { ...cacerts, "cert-chain.pem": "\n", "ca-crl.pem": "list" };
  const material = await loadPluggedIn(await folderOf(files));
  expect(material.chain).toEqual([]);
  expect(material.crl?.text).toBe("list");
});

test("adds the roots of another file", async () => {
  const files = { ...cacerts, "root-cert-combined.pem": "more roots" };
  const folder = await folderOf(files);
  const { roots } = await loadPluggedIn(folder, join(folder, "root-cert-combined.pem"));
  expect(roots.map(({ text }) => text)).toEqual(["root", "more roots"]);
});

test("names every missing file at once", async () => {
  const folder = await folderOf({ "ca-key.pem": "key" });
  expect(await refusalIn(folder)).toEqual([
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
  const folder = await folderOf(files);
  const lines = await refusalIn(folder);
  expect(lines[1]).toContain(`${name} is missing`);
});

test.for(["ca-cert.pem", "ca-key.pem", "root-cert.pem"])("refuses an empty %s", async (name) => {
  const folder = await folderOf({ ...cacerts, [name]: " \n" });
  const [, line] = await refusalIn(folder);
  expect(line).toBe(`${join(folder, name)}: is empty`);
});

test("refuses two CAs in one directory", async () => {
  const folder = await folderOf({ ...cacerts, ...kubernetesTls });
  expect(await refusalIn(folder)).toEqual([expect.stringContaining("holds two CAs")]);
});

test("refuses a file that is too large, not text, a directory or not readable", async () => {
  const folder = await folderOf(without(cacerts, "ca-key.pem"));
  const key = join(folder, "ca-key.pem");
  const noFile = [`${key} is not a file of at most 262144 octets`];
  await writeFile(key, "k".repeat(256 * 1024 + 1));
  expect(await refusalIn(folder)).toEqual(noFile);
  await writeFile(key, Buffer.from("3082ff", "hex"));
  expect(await refusalIn(folder)).toEqual([`${key}: is not text; PEM is needed, not DER`]);
  await chmod(key, 0);
  if (process.getuid?.() !== 0)
    expect(await refusalIn(folder)).toEqual([`${key} cannot be read: EACCES`]);
  await rename(key, join(folder, "away"));
  await mkdir(key);
  expect(await refusalIn(folder)).toEqual(noFile);
});

test("refuses a path that leads nowhere, an empty file and missing combined roots", async () => {
  const folder = await folderOf({ ...cacerts, "empty.yaml": "" });
  const nowhere = join(folder, "nowhere");
  const missing = [`${nowhere} does not exist`];
  expect(await refusalIn(nowhere)).toEqual(missing);
  expect(await refusalIn(folder, nowhere)).toEqual(missing);
  const empty = join(folder, "empty.yaml");
  expect(await refusalIn(empty)).toEqual([`${empty}: is empty`]);
});

const istioCaSecret = readFileSync("test/vectors/istio-ca-secret.yaml", "utf8");

const base64 = (text: string) => Buffer.from(text).toString("base64");

const secret = (name: string, data: object, rest: object = {}) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace: "istio-system" },
  data,
  ...rest,
});

const cacertsSecret = secret("cacerts", {
  "ca-cert.pem": base64("certificate"),
  "ca-key.pem": base64("key"),
  "cert-chain.pem": base64("chain"),
  "root-cert.pem": base64("root"),
  "istio-generated": "",
});
const tls = secret("istiod-tls", {
  "tls.crt": base64("certificate"),
  "tls.key": base64("key"),
  "ca.crt": base64("root"),
});
const serving = secret("opaque", { password: base64("hunter2") });
const configMap = { kind: "ConfigMap", metadata: { name: "other" }, data: { "ca-cert.pem": "x" } };

const read = (text: string) => parseSecretManifest({ name: "secret.yaml", text });
const linesFor = (document: unknown) => operatorErrorOf(() => read(JSON.stringify(document)));

test("reads the Secret of a real cluster, whose roots and chain are empty", () => {
  const material = read(istioCaSecret);
  expect(material.certificate.name).toBe(
    "secret.yaml, Secret istio-system/istio-ca-secret: ca-cert.pem",
  );
  expect(material.certificate.text).toMatch(/^-----BEGIN CERTIFICATE-----/);
  expect([material.chain, material.roots]).toEqual([[], []]);
  expect(read(JSON.stringify(parse(istioCaSecret)))).toEqual(material);
});

test.for([
  ["JSON", JSON.stringify(cacertsSecret)],
  ["YAML", stringify(cacertsSecret)],
  [
    "several documents",
    [serving, configMap, cacertsSecret].map((one) => stringify(one)).join("---\n"),
  ],
  ["a List", JSON.stringify({ kind: "List", items: [serving, cacertsSecret, configMap] })],
  ["line breaks in base64", JSON.stringify(cacertsSecret).replaceAll("Y2Vyd", "Y2\\nVyd")],
])("reads a cacerts Secret as %s", ([, text]) => {
  expect(read(text ?? "")).toMatchObject({
    certificate: { text: "certificate" },
    privateKey: { text: "key" },
    chain: [{ text: "chain" }],
    roots: [{ text: "root" }],
  });
});

test("reads a kubernetes.io/tls Secret, with stringData beside data", () => {
  expect(read(JSON.stringify(tls)).roots.map(({ text }) => text)).toEqual(["root"]);
  const data = { "tls.crt": base64("certificate") };
  const mixed = secret("mixed", data, { stringData: { "tls.key": "key" } });
  expect(read(JSON.stringify(mixed))).toMatchObject({ privateKey: { text: "key" }, roots: [] });
});

const entries = (changes: object) => secret("cacerts", { ...cacertsSecret.data, ...changes });

test.for<[string, unknown, string]>([
  ["another kind", configMap, "holds no Kubernetes Secret"],
  ["a scalar", "text", "holds no Kubernetes Secret"],
  ["an empty List", { kind: "List", items: [] }, "holds no Kubernetes Secret"],
  ["a Secret of another purpose", serving, "only Secret istio-system/opaque"],
  ["a Secret without a key", secret("cacerts", { "ca-cert.pem": "eA==" }), "no Secret holds"],
  ["two CAs", { items: [cacertsSecret, tls] }, "more than one CA"],
  ["two layouts", secret("both", { ...cacertsSecret.data, ...tls.data }), "holds two CAs"],
  ["an empty key", entries({ "ca-key.pem": "" }), "ca-key.pem: is empty"],
  ["a null certificate", entries({ "ca-cert.pem": null }), "ca-cert.pem: is empty"],
  ["what is not base64", entries({ "ca-key.pem": "secret!" }), "ca-key.pem: is not base64"],
  ["DER", entries({ "ca-key.pem": "MIL/" }), "ca-key.pem: is not text"],
  ["an entry twice", { ...cacertsSecret, stringData: { "ca-key.pem": "k" } }, "stands in both"],
  ["a Secret without a name", { kind: "Secret", data: {} }, "holds a malformed Secret: metadata"],
  ["numbers for texts", secret("cacerts", { "ca-key.pem": 1 }), "holds a malformed Secret: data"],
])("refuses %s", async ([, document, sentence]) => {
  const lines = await linesFor(document);
  expect(lines.join("\n")).toContain(sentence);
  expect(lines.join("\n")).not.toContain("secret!");
});

test.for([
  ["a key twice", '{"kind": "Secret", "kind": "Secret"}'],
  ["a YAML that does not end", 'kind: "Secret'],
  ["a key among broken YAML", "ca-key.pem: [SECRET"],
  ["an alias of nothing", "kind: *nothing"],
  ["a tower of aliases", aliasTower()],
])("refuses %s, and does not repeat it", async ([, text]) => {
  const lines = await operatorErrorOf(() => read(text ?? ""));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/neither YAML nor JSON|YAML aliases/);
  expect(lines[0]).not.toContain("SECRET");
});

function aliasTower(): string {
  const levels = Array.from({ length: 9 }, (_, i) => {
    const below = i === 0 ? '"x"' : `*l${i - 1}`;
    return `l${i}: &l${i} [${Array.from({ length: 10 }, () => below).join(", ")}]`;
  });
  return levels.join("\n");
}
