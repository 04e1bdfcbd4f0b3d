import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { parseSecretManifest } from "../../../../src/cli/verbs/import/load.ts";
import { operatorErrorOf } from "../../../testkit/pki/plugged-in.ts";

const istioCaSecret = readFileSync("test/vectors/istio-ca-secret.yaml", "utf8");

const base64 = (text: string) => Buffer.from(text).toString("base64");

const secret = (name: string, data: object, rest: object = {}) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace: "istio-system" },
  data,
  ...rest,
});

const cacerts = secret("cacerts", {
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
  ["JSON", JSON.stringify(cacerts)],
  ["YAML", stringify(cacerts)],
  ["several documents", [serving, configMap, cacerts].map((one) => stringify(one)).join("---\n")],
  ["a List", JSON.stringify({ kind: "List", items: [serving, cacerts, configMap] })],
  ["line breaks in base64", JSON.stringify(cacerts).replaceAll("Y2Vyd", "Y2\\nVyd")],
])("reads a cacerts Secret as %s", ([, text]) => {
  const material = read(text ?? "");
  expect(material.certificate.text).toBe("certificate");
  expect(material.privateKey.text).toBe("key");
  expect(material.chain.map((one) => one.text)).toEqual(["chain"]);
  expect(material.roots.map((one) => one.text)).toEqual(["root"]);
});

test("reads a kubernetes.io/tls Secret, with stringData beside data", () => {
  expect(read(JSON.stringify(tls)).roots.map(({ text }) => text)).toEqual(["root"]);
  const data = { "tls.crt": base64("certificate") };
  const mixed = secret("mixed", data, { stringData: { "tls.key": "key" } });
  expect(read(JSON.stringify(mixed))).toMatchObject({ privateKey: { text: "key" }, roots: [] });
});

const entries = (changes: object) => secret("cacerts", { ...cacerts.data, ...changes });

test.for<[string, unknown, string]>([
  ["another kind", configMap, "holds no Kubernetes Secret"],
  ["a scalar", "text", "holds no Kubernetes Secret"],
  ["an empty List", { kind: "List", items: [] }, "holds no Kubernetes Secret"],
  ["a Secret of another purpose", serving, "only Secret istio-system/opaque"],
  ["a Secret without a key", secret("cacerts", { "ca-cert.pem": "eA==" }), "no Secret holds"],
  ["two CAs", { items: [cacerts, tls] }, "more than one CA"],
  ["two layouts", secret("both", { ...cacerts.data, ...tls.data }), "holds two CAs"],
  ["an empty key", entries({ "ca-key.pem": "" }), "ca-key.pem: is empty"],
  ["a null certificate", entries({ "ca-cert.pem": null }), "ca-cert.pem: is empty"],
  ["what is not base64", entries({ "ca-key.pem": "secret!" }), "ca-key.pem: is not base64"],
  ["DER", entries({ "ca-key.pem": "MIL/" }), "ca-key.pem: is not text"],
  ["an entry twice", { ...cacerts, stringData: { "ca-key.pem": "k" } }, "stands in both"],
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
