import { describe, expect, test } from "vitest";
import {
  configurationOf,
  expectOneFault,
  faultsOf,
  issuer,
  issuersOf,
} from "../testkit/configuration.ts";

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

describe("the table kubernetes of an issuer", () => {
  test("makes the API server decide where the keys cannot, by default", () => {
    const [table] = issuersOf({ issuer, kubernetes: { server: `${server}/`, credential } });
    expect(table?.kubernetes).toEqual({ server, credential, review: "after-keys" });
  });

  test("may have all of its keys", () => {
    const kubernetes = {
      server,
      credential,
      ca: pem,
      review: "before-keys",
      deliver_roots: true,
      config_map: "istio-ca-root-cert",
    };
    expect(issuersOf({ issuer, kubernetes })[0]?.kubernetes).toEqual(kubernetes);
  });

  test("makes keys needless when the API server decides alone", () => {
    const kubernetes = { server, credential, review: "instead-of-keys" };
    expect(issuersOf({ issuer: "kubernetes", kubernetes })).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ["an empty server", { server: "" }, "server"],
    ["a server over http", { server: "http://10.0.0.1" }, "server"],
    ["a server with a password", { server: "https://a:b@10.0.0.1" }, "server"],
    ["a server with a query", { server: `${server}/?a=b` }, "server"],
    ["an empty credential", { credential: "" }, "credential"],
    ["a credential itself", { credential: "eyJhbGciOiJub25lIn0" }, "credential"],
    ["the name of another secret", { credential: "KEK" }, "credential"],
    ["the name of a file", { credential: `${credential}_FILE` }, "credential"],
    ["a CA that is none", { ca: "MIIB" }, "ca"],
    ["a CA on one line, which OpenSSL does not read", { ca: pem.replaceAll("\n", " ") }, "ca"],
    ["a CA with words around it", { ca: `the CA:\n${pem}` }, "ca"],
    ["a private key for a CA", { ca: pem.replaceAll("CERTIFICATE", "PRIVATE KEY") }, "ca"],
    ["another order", { review: "never" }, "review"],
    ["a delivery that is no yes or no", { deliver_roots: "yes" }, "deliver_roots"],
    ["a ConfigMap without a name", { config_map: "" }, "config_map"],
    ["a ConfigMap that is a path", { config_map: "../secrets/x" }, "config_map"],
    ["another key", { token: "x" }, "token"],
  ])("may not have %s", (_, changes, key) => {
    const kubernetes = { server, credential, ...changes };
    expectOneFault({ ISSUERS: [{ issuer, kubernetes }] }, `ISSUERS[0].kubernetes.${key}`);
  });

  test("needs an issuer with keys unless the API server decides alone", () => {
    const tables = [{ issuer: "kubernetes", kubernetes: { server, credential } }];
    expectOneFault({ ISSUERS: tables }, "ISSUERS[0].issuer");
  });
});

describe("a credential", () => {
  test("is the secret with its name", () => {
    const { clusterCredentials } = configurationOf({ [credential]: "secret" });
    expect([...clusterCredentials].map(([name, read]) => [name, read()])).toEqual([
      [credential, "secret"],
    ]);
  });

  test.each(["", "two words", "two\nlines", "ü", 1, ["a"]])("may not be %j", (value) => {
    expectOneFault({ [credential]: value }, credential);
  });

  test("is never read from a file here", () => {
    const key = `${credential}_FILE`;
    expect(faultsOf({ [key]: "/token" })).toEqual([`${key}: is not a key of Rampart`]);
  });
});
