import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { test } from "vitest";
import { hex } from "../../../testkit/der/mutation.ts";
import { createCa, isCa, materialOf, maySign } from "../../../testkit/pki/plugged-in.ts";
import { requireRefused, requireWarned, verify } from "./verifying.ts";

const constraints = (value: string) => new x509.Extension("2.5.29.30", true, hex(value));
const ia5 = (text: string) => `86${octet(text.length)}${Buffer.from(text).toString("hex")}`;
const octet = (number: number) => number.toString(16).padStart(2, "0");
const tagged = (tag: string, content: string) => `${tag}${octet(content.length / 2)}${content}`;
const subtrees = (tag: string, ...hosts: readonly string[]) =>
  tagged("30", tagged(tag, hosts.map((host) => tagged("30", ia5(host))).join("")));
const permitted = (...hosts: readonly string[]) => constraints(subtrees("a0", ...hosts));
const excluded = (...hosts: readonly string[]) => constraints(subtrees("a1", ...hosts));

const constrained = (extension: x509.Extension) =>
  createCa("O=constrained", { extensions: [isCa(), maySign, extension] });

test.for([
  ["another host", permitted("elsewhere.test")],
  ["a host above, as only Go reads it", permitted("local")],
  ["hosts below", permitted(".cluster.local")],
  ["the host excluded", excluded("other.test", "cluster.local")],
  ["a host above excluded", excluded("local")],
  ["hosts below a label excluded", excluded(".local")],
  ["everything excluded", excluded("")],
  ["upper case excluded", excluded("CLUSTER.local")],
] as const)("refuses name constraints that exclude the trust domain: %s", async ([, extension]) => {
  const ca = await constrained(extension);
  const leading = await createCa("O=below", { issuer: ca });
  for (const material of [materialOf(ca), materialOf(leading, { roots: ca.pem })]) {
    await requireRefused(material, "name constraints exclude the trust domain cluster.local");
  }
});

const permittedOne = (content: string) => tagged("30", tagged("a0", tagged("30", content)));

test.for([
  ["what is no NameConstraints", "0500"],
  ["what is cut off", "3003a00130"],
  ["no subtree", "3000"],
  ["an empty list of subtrees", "3002a000"],
  ["a minimum", permittedOne(`${ia5("local")}800101`)],
  ["a host that is no ASCII", permittedOne("8602c3a4")],
  ["a range of five octets", permittedOne("87050a000000ff")],
] as const)("refuses name constraints with %s", async ([, value]) => {
  const ca = await constrained(constraints(value));
  await requireRefused(materialOf(ca), "not a certificate that verifiers agree on");
});

const organization = (name: string) => {
  const value = `060355040a0c${octet(name.length)}${Buffer.from(name).toString("hex")}`;
  return tagged("a4", tagged("30", tagged("31", tagged("30", value))));
};
const directories = (tag: "a0" | "a1", name: string, isCritical = false) => {
  const value = tagged("30", tagged(tag, tagged("30", organization(name))));
  return new x509.Extension("2.5.29.30", isCritical, hex(value));
};

test("refuses a critical constraint on directory names alone, and takes it where Go does", async () => {
  await requireRefused(
    materialOf(await constrained(directories("a0", "x", true))),
    "about directory names or names of rare kinds, which Go refuses",
  );
  await verify(materialOf(await constrained(directories("a0", "x"))));
});

async function below(extension: x509.Extension, subject: string) {
  const root = await createCa("O=mesh,CN=root", { extensions: [isCa(), maySign, extension] });
  const ca = await createCa(subject, { issuer: root });
  return materialOf(ca, { roots: root.pem });
}

test.for([
  ["another organization than is permitted", directories("a0", "mesh"), "O=other,CN=mesh"],
  ["an organization in another place", directories("a0", "mesh"), "CN=mesh,O=mesh"],
  ["less than the permitted name", directories("a0", "mesh"), "CN=mesh"],
  ["an excluded organization", directories("a1", "mesh"), "O=mesh,CN=below"],
  ["an excluded organization in upper case", directories("a1", "mesh"), "O=MESH,CN=below"],
] as const)(
  "refuses a CA below a constraint on directory names, with %s",
  async ([, extension, subject]) => {
    await requireRefused(
      await below(extension, subject),
      /CN=root\): its name constraints exclude the subject of ca-cert.pem.*, so that OpenSSL and Envoy refuse/,
    );
  },
);

test.for([
  ["a permitted organization", directories("a0", "mesh"), "O=mesh,CN=below"],
  ["one that is spelled otherwise", directories("a0", "the  Mesh"), "O=THE mesh,CN=below"],
  ["one that is not excluded", directories("a1", "other"), "O=mesh,CN=below"],
] as const)(
  "takes a CA below a constraint on directory names, with %s",
  async ([, extension, subject]) => {
    const material = await below(extension, subject);
    await requireWarned(material, "constraints on directory names; ztunnel");
  },
);

const everyBelow = "ztunnel refuses every certificate below it";
const ofDirectories = "has name constraints on directory names; ztunnel";

test.for([
  ["the host", permitted("other.test", "cluster.local"), "ztunnel refuses every"],
  ["hosts below local", permitted(".local"), "ztunnel refuses every"],
  ["other hosts excluded", excluded("a.test", ".cluster.local"), "ztunnel and GnuTLS refuse"],
  ["DNS names", constraints("3010a00e300c820a6578616d706c652e6f72"), "on DNS names"],
  ["IP addresses", constraints("300ea00c300a87080a000000ff000000"), "no certificate of Rampart"],
  ["directory names", directories("a0", "mesh"), `directory names; ${everyBelow}`],
  ["others excluded", directories("a1", "other"), `${ofDirectories} and GnuTLS refuse every`],
] as const)("warns of name constraints that admit it: %s", async ([, extension, sentence]) => {
  const ca = await createCa("O=mesh", { extensions: [isCa(), maySign, extension] });
  await requireWarned(materialOf(ca), sentence);
});
