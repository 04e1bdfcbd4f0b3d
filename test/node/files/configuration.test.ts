import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { variableNames } from "../../../src/agent/configuration/environment.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { ConfigurationFile, unreadVariables } from "../../../src/node/files/configuration-file.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

type Values = Readonly<Record<string, unknown>>;

const KEK = randomKek();
const secret = "0123456789abcdef0123456789abcdef";
const digest = `sha256:${"0a".repeat(32)}`;
const ISSUERS = [{ issuer: "https://a.test" }];
const inNamespace = {
  STORE: "kubernetes",
  STORE_NAMESPACE: "rampart-store",
  STORE_DIRECTORY: undefined,
};
const serveWith = (changes: Values) =>
  ServeConfiguration.parse({ ISSUERS, KEK, STORE_DIRECTORY: "/store", ...changes });
const gatewayWith = (changes: Values) =>
  GatewayConfiguration.parse({ UPSTREAM: "https://ca.test", ...changes });

async function faultsOf(work: () => unknown): Promise<readonly string[]> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ConfigurationError) return error.faults;
    throw error;
  }
  throw new Error("nothing was wrong");
}

async function fileWith(text: string): Promise<string> {
  const path = join(await temporaryFolder(), "rampart.toml");
  await writeFile(path, text);
  return path;
}

describe("a configuration file", () => {
  test("has the keys of the Worker, and gets its secret from the environment", async () => {
    const path = await fileWith(
      [
        'STORE_DIRECTORY = "/var/lib/rampart"',
        'TRUST_DOMAIN = "mesh.test"',
        "INCEPTION_DATE = 2026-11-21",
        "[[ISSUERS]]",
        'issuer = "https://a.test"',
        'namespaces = ["shop-*"]',
        "[[ISSUERS.gateways]]",
        'account = "istio-system/rampart-gateway"',
        'dns_names = ["istiod.istio-system.svc"]',
      ].join("\n"),
    );
    const values = await ConfigurationFile.read(path, { KEK: `${KEK}\n`, HOME: "/root" });
    const { ca, store } = ServeConfiguration.parse(values);
    expect(store).toEqual({ kind: "directory", directory: "/var/lib/rampart" });
    expect(ca).toMatchObject({ trustDomain: "mesh.test", inceptionDate: "2026-11-21" });
    expect(ca.keks).toHaveLength(1);
    expect(ca.issuers[0]?.gateways).toEqual([
      {
        account: { namespace: "istio-system", name: "rampart-gateway" },
        dns_names: ["istiod.istio-system.svc"],
        forwards: "certificates",
      },
    ]);
  });

  test.each([
    ["KEK", KEK],
    ["LOG_READERS", secret],
    ["CONSOLE_TOKENS", secret],
    ["CONSOLE_TOKENS", `${digest}, ${secret}`],
    ["CLUSTER_CREDENTIAL_A", secret],
    ["UPSTREAM_CREDENTIAL", secret],
  ])("must not hold the secret %s, and its fault does not show it", async (key, value) => {
    const path = await fileWith(`${key} = "${value}"`);
    const faults = await faultsOf(() => ConfigurationFile.read(path, {}));
    expect(faults).toEqual([expect.stringMatching(new RegExp(`^${key}: .*environment`))]);
    expect(faults.join()).not.toContain(value.slice(3, 20));
  });

  test("gets the tokens of the console from the environment, as every secret", async () => {
    const path = await fileWith(
      'STORE_DIRECTORY = "/store"\n[[ISSUERS]]\nissuer = "https://a.test"',
    );
    const values = await ConfigurationFile.read(path, { KEK, CONSOLE_TOKENS: `${secret}\n` });
    const { console } = ServeConfiguration.parse(values).ca;
    expect(console?.tokens).toEqual([{ token: secret }]);
  });

  test("may hold digests of the console's tokens, unless the environment has tokens", async () => {
    const path = await fileWith(`CONSOLE_TOKENS = "${digest}"`);
    expect(await ConfigurationFile.read(path, {})).toEqual({ CONSOLE_TOKENS: digest });
    const faults = await faultsOf(() => ConfigurationFile.read(path, { CONSOLE_TOKENS: secret }));
    expect(faults).toEqual([expect.stringMatching(/^CONSOLE_TOKENS: .*one of the two/)]);
  });

  test("ignores keys of the environment that are not secret, and warns of them", () => {
    const environment = {
      ...{ KEK, CONSOLE_TOKENS: secret, TRUST_DOMAIN: "mesh.test", HOME: "/root" },
      ...{ CLUSTER_CREDENTIAL_A_FILE: "/token", CONSOLE_TOKENS_FILE: "/tokens" },
    };
    expect(
      unreadVariables([...Configuration.keys, ...ServeConfiguration.keys], environment),
    ).toEqual([
      { name: "TRUST_DOMAIN", key: "TRUST_DOMAIN" },
      { name: "CONSOLE_TOKENS_FILE", key: "CONSOLE_TOKENS" },
    ]);
  });

  test.each([
    ["KEK", "KEKS", "kek", "KEK_FILES"],
    ["LOG_READERS", "LOG_READER", "LOG_READRS", "LOGREADERS"],
    ["CONSOLE_TOKENS", "CONSOLE_TOKEN", "CONSOLE_TOKNES", "CONSOL_TOKENS", "CONSOLE_T0KENS"],
    ["CONSOLE_TOKENS", "XCONSOLE_TOKENS", "CONSOLE_TOKENSX", "CONSOLE_TOKEN_FILE"],
    ["TRUST_DOMAIN", "TRUST_DOMIAN"],
  ])("warns of misspelt %s in the environment, without its value", (key, ...names) => {
    const environment = Object.fromEntries(names.map((name) => [name, secret]));
    const lines: object[] = [];
    const operation = (line: object) => lines.push(line);
    ConfigurationFile.warnOfUnread(
      [...Configuration.keys, ...ServeConfiguration.keys],
      environment,
      { operation },
    );
    const detail = `looks like the key ${key} of the configuration, and nothing reads it in the environment`;
    const event = "variable-ignored";
    expect(lines).toEqual(names.map((name) => ({ event, level: "warning", name, detail })));
  });

  test("warns of no variable of another program", () => {
    const others = `PATH HOME HOSTNAME PWD SHELL LANG TERM USER KEY TOKEN CURL LOG_LEVEL LOG_FILES CONSOLE
      KUBERNETES_PORT KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_PORT_443_TCP_ADDR
      NODE_ENV NODE_OPTIONS NODE_EXTRA_CA_CERTS SSL_CERT_FILE https_proxy NO_PROXY POD_NAMESPACE
      AWS_REGION AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN STORE_SERVICE_HOST STORE_PORT LISTEN_FDS NOTIFY_SOCKET`;
    const names = [...others.split(/\s+/), ...variableNames];
    const environment = Object.fromEntries(names.map((name) => [name, "x"]));
    // Istio's agent has one of the same name.
    delete environment["TRUST_DOMAIN"];
    for (const keys of [
      [...Configuration.keys, ...ServeConfiguration.keys],
      GatewayConfiguration.keys,
      SignerConfiguration.keys,
    ]) {
      expect(unreadVariables(keys, environment)).toEqual([]);
    }
  });

  test("that is not TOML has a fault with the position and without the text", async () => {
    const path = await fileWith(`TRUST_DOMAIN = "a"\nKEK = ${KEK}`);
    const faults = await faultsOf(() => ConfigurationFile.read(path, {}));
    expect(faults).toEqual([expect.stringMatching(/rampart\.toml:2:\d+: is not TOML$/)]);
    expect(faults.join()).not.toContain(KEK.slice(3, 20));
  });

  test.each([
    ["is not there", "/nowhere/rampart.toml", "does not exist"],
    ["is a directory", "/", "is not a file of at most 16777216 octets"],
  ])("that %s has a fault", async (_, path, why) => {
    const faults = await faultsOf(() => ConfigurationFile.read(path, {}));
    expect(faults).toEqual([`${path} ${why}`]);
  });
});

describe("the configuration of serve", () => {
  test("listens on istiod's ports, and relies on its files at once", () => {
    expect(serveWith({})).toMatchObject({
      listen: { port: 15012 },
      monitoringListen: { port: 15014 },
      plaintextListen: undefined,
      certificateFiles: undefined,
    });
    expect(serveWith({}).ca.phaseLengths.propagationSeconds).toBe(5);
    expect(serveWith({ PROPAGATION_INTERVAL: "1s" }).ca.phaseLengths.propagationSeconds).toBe(1);
  });

  test.each([
    [":15012", { port: 15012 }],
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
    ["[::1]:443", { host: "::1", port: 443 }],
    ["ca.test:65535", { host: "ca.test", port: 65535 }],
  ])("may listen on %s", (LISTEN, listen) => {
    expect(serveWith({ LISTEN }).listen).toEqual(listen);
  });

  test("keeps its records in a namespace of the cluster of its pod, or of another", () => {
    const values = { ISSUERS, KEK, ...inNamespace };
    const { store, ca } = ServeConfiguration.parse(values, { KUBERNETES_SERVICE_HOST: "10.0.0.1" });
    expect(store).toMatchObject({
      kind: "kubernetes",
      namespace: "rampart-store",
      apiServer: { server: "https://10.0.0.1:443" },
    });
    expect(ca.phaseLengths.propagationSeconds).toBe(120);
    const elsewhere = { ...values, KUBERNETES_SERVER: "https://api.test" };
    expect(ServeConfiguration.parse(elsewhere).store).toMatchObject({
      apiServer: { server: "https://api.test", serverRootsFile: undefined },
    });
    expect(ServeConfiguration.parse(values).store).toMatchObject({ apiServer: undefined });
  });

  test.each<[string, Values]>([
    ["STORE_DIRECTORY", { STORE_DIRECTORY: undefined }],
    ["STORE_DIRECTORY", { STORE_DIRECTORY: "" }],
    ["STORE", { STORE: "etcd" }],
    ["STORE_NAMESPACE", { STORE_NAMESPACE: "rampart-store" }],
    ["KUBERNETES_SERVER", { KUBERNETES_SERVER: "https://10.0.0.1" }],
    ["STORE_DIRECTORY", { STORE: "kubernetes", STORE_NAMESPACE: "a" }],
    ["STORE_NAMESPACE", { STORE: "kubernetes", STORE_DIRECTORY: undefined }],
    ["STORE_NAMESPACE", { ...inNamespace, STORE_NAMESPACE: "A" }],
    ["STORE_NAMESPACE", { ...inNamespace, STORE_NAMESPACE: "a/b" }],
    ["LOG_STORE", { ...inNamespace, LOG_ORIGIN: "log.test" }],
    ["LOG_STORE", { ...inNamespace, LOG_STORE: "mesh-log/" }],
    ["PROPAGATION_INTERVAL", { ...inNamespace, PROPAGATION_INTERVAL: "0s" }],
    ["PROPAGATION_INTERVAL", { ...inNamespace, PROPAGATION_INTERVAL: "9s" }],
    ["LISTEN", { LISTEN: "15012" }],
    ["LISTEN", { LISTEN: ":65536" }],
    ["LISTEN", { LISTEN: "::1:443" }],
    ["LISTEN", { LISTEN: "https://a:1" }],
    ["SERVING_NAMES", { SERVING_NAMES: [] }],
    ["SERVING_NAMES[0]", { SERVING_NAMES: ["*.test"] }],
    ["SERVING_NAMES[0]", { SERVING_NAMES: ["10.0.0.1"] }],
    ["SERVING_NAMES[1]", { SERVING_NAMES: ["a.test", "spiffe://a"] }],
    ["SERVING_NAMES", { SERVING_NAMES: ["a.test", "spiffe://a/b"] }],
    ["SERVING_NAMES", { SERVING_NAMES: ["a.test", "spiffe://cluster.localhost/b"] }],
    [
      "CLUSTER_CREDENTIAL_A_FILE",
      { CLUSTER_CREDENTIAL_A: "secret", CLUSTER_CREDENTIAL_A_FILE: "/token" },
    ],
    ["SERVING_NAMES", { SERVING_NAMES: ["spiffe://cluster.local/ca"] }],
    [
      "SERVING_NAMES",
      { SERVING_NAMES: ["a.test", "spiffe://cluster.local/a", "spiffe://cluster.local/b"] },
    ],
    ["TLS_KEY_FILE", { TLS_CERTIFICATE_FILE: "/tls.crt" }],
    ["TLS_CERTIFICATE_FILE", { TLS_KEY_FILE: "/tls.key" }],
    ["LISTENER", { LISTENER: ":1" }],
    ["UPSTREAM", { UPSTREAM: "https://a.test" }],
    ["PROPAGATION_INTERVAL", { PROPAGATION_INTERVAL: "soon" }],
    ["KEK", { KEK: undefined }],
  ])("has a fault at %s (%#)", async (place, changes) => {
    const defined = Object.entries({ ISSUERS, KEK, STORE_DIRECTORY: "/store", ...changes });
    const values = Object.fromEntries(defined.filter(([, value]) => value !== undefined));
    const faults = await faultsOf(() => ServeConfiguration.parse(values));
    expect(faults.map((fault) => fault.split(": ")[0])).toEqual([place]);
  });
});

test.each<[string, readonly string[], () => unknown]>([
  [
    "the CA and its store",
    ["TRUST_DOMAIN", "ISSUERS", "STORE_DIRECTORY", "CLUSTER_CREDENTIAL_A_FILE"],
    () =>
      ServeConfiguration.parse({
        KEK,
        TRUST_DOMAIN: "Mesh",
        STORE_DIRECTORY: 1,
        CLUSTER_CREDENTIAL_A_FILE: "",
      }),
  ],
  [
    "the CA, its store and its certificate",
    ["ISSUERS", "STORE_DIRECTORY", "TLS_KEY_FILE"],
    () => ServeConfiguration.parse({ KEK, TLS_CERTIFICATE_FILE: "/tls.crt" }),
  ],
  [
    "what other keys exclude",
    ["LOG_STORE", "IMPORT_DIRECTORY"],
    () => serveWith({ ...inNamespace, LOG_ORIGIN: "log.test", IMPORT_DIRECTORY: "/cacerts" }),
  ],
  [
    "a gateway's certificate and roots",
    ["TLS_KEY_FILE", "KUBERNETES_SERVER", "CONFIG_MAPS"],
    () =>
      gatewayWith({ TLS_CERTIFICATE_FILE: "/tls.crt", DELIVER_ROOTS: true, CONFIG_MAPS: false }),
  ],
])("names the faults of %s at once", async (_, places, parse) => {
  const faults = await faultsOf(parse);
  expect(faults.map((fault) => fault.split(": ")[0])).toEqual(places);
});

describe("the configuration of a gateway", () => {
  const inCluster = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "6443" };

  test("delivers roots to the cluster of its pod, if it delivers any", () => {
    const values = { UPSTREAM: "https://ca.test", DELIVER_ROOTS: true };
    expect(GatewayConfiguration.parse(values, inCluster)).toMatchObject({
      rootPlaces: { server: "https://[fd00::1]:6443", configMap: "istio-ca-root-cert" },
      isReadyWithRoots: false,
    });
    expect(GatewayConfiguration.parse({ UPSTREAM: "https://ca.test" }, inCluster)).toMatchObject({
      rootPlaces: undefined,
    });
  });

  test("needs nothing but the URL of the CA", () => {
    expect(gatewayWith({})).toMatchObject({
      upstream: "https://ca.test",
      trustDomain: "cluster.local",
      tokenFile: "/var/run/secrets/tokens/istio-token",
      cluster: "Kubernetes",
      listen: { port: 15012 },
    });
    expect(gatewayWith({ UPSTREAM: "http://127.0.0.1:8787/" }).upstream).toBe(
      "http://127.0.0.1:8787",
    );
  });

  test.each<[string, Values]>([
    ["UPSTREAM", { UPSTREAM: "http://ca.test" }],
    ["UPSTREAM", { UPSTREAM: "https://user:password@ca.test" }],
    ["UPSTREAM", { UPSTREAM: "ca.test" }],
    ["UPSTREAM", { UPSTREAM: "https://ca.test?tenant=a" }],
    ["UPSTREAM", { UPSTREAM: "https://ca.test/#" }],
    ["TRUST_DOMAIN", { TRUST_DOMAIN: "Cluster.Local" }],
    ["CLUSTER", { CLUSTER: "two words" }],
    ["TLS_KEY_FILE", { TLS_CERTIFICATE_FILE: "/tls.crt" }],
    ["READY_WITH_ROOTS", { READY_WITH_ROOTS: true }],
    ["DELIVER_ROOTS", { DELIVER_ROOTS: "yes" }],
    ["KUBERNETES_SERVER", { DELIVER_ROOTS: true }],
    ["KUBERNETES_SERVER", { DELIVER_ROOTS: true, KUBERNETES_SERVER: "http://10.0.0.1" }],
    ["KUBERNETES_SERVER", { DELIVER_ROOTS: true, KUBERNETES_SERVER: "https://10.0.0.1/?a" }],
    ["CONFIG_MAP", { CONFIG_MAP: "a/b" }],
    ["CONFIG_MAP", { CONFIG_MAP: "istio-ca-crl" }],
    ["CRL_CONFIG_MAPS", { CRL_CONFIG_MAPS: "yes" }],
    [
      "CONFIG_MAPS",
      { DELIVER_ROOTS: true, KUBERNETES_SERVER: "https://10.0.0.1", CONFIG_MAPS: false },
    ],
    ["STORE_DIRECTORY", { STORE_DIRECTORY: "/store" }],
    ["ISSUERS", { ISSUERS }],
  ])("has a fault at %s (%#)", async (place, changes) => {
    const faults = await faultsOf(() => gatewayWith(changes));
    expect(faults.map((fault) => fault.split(": ")[0])).toEqual([place]);
  });
});
