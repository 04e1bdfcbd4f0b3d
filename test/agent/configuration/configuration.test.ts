import { expect, test } from "vitest";
import { parseCaAddress } from "../../../src/agent/configuration/ca-settings.ts";
import { type Environment, parseVariables } from "../../../src/agent/configuration/environment.ts";
import { drainPolicyOf, parseConfiguration } from "../../../src/agent/configuration.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const parse = (variables: Environment) => parseConfiguration({ ...pod, ...variables });

function faultsOf(variables: Environment): string {
  try {
    parse(variables);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.message;
    throw error;
  }
  throw new Error("nothing was refused");
}

test("has pilot-agent's defaults in a pod that sets its namespace and account alone", () => {
  const configuration = parse({});
  expect(configuration).toMatchObject({
    subject: { mode: "sidecar", spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" },
    ca: {
      address: { protocol: "grpc", baseUrl: "https://istiod.istio-system.svc:15012" },
      files: { rootFile: "./var/run/secrets/istio/root-cert.pem" },
    },
    renewal: { graceRatio: 0.55, jitter: 0.05 },
    sdsSocket: "./var/run/secrets/workload-spiffe-uds/socket",
    fileDebounceMilliseconds: 100,
  });
  expect(configuration.request).toEqual({
    key: { kind: "EC", curve: "P-256" },
    lifetimeSeconds: 86_400,
    token: { kind: "file", path: "./var/run/secrets/tokens/istio-token" },
    clusterId: "Kubernetes",
    certSigner: "",
    purpose: "identity",
    headers: {},
    attemptTimeoutMilliseconds: 10_000,
    impersonates: false,
  });
  expect(configuration.bundleUrl).toBe("https://istiod.istio-system.svc:15012/bundle.json");
});

test.each([
  [{}, { kind: "EC", curve: "P-256" }],
  [
    { ECC_SIGNATURE_ALGORITHM: "ECDSA", ECC_CURVE: "P384" },
    { kind: "EC", curve: "P-384" },
  ],
  [
    { ECC_SIGNATURE_ALGORITHM: "ECDSA", ECC_CURVE: "P521" },
    { kind: "EC", curve: "P-256" },
  ],
  [{ WORKLOAD_RSA_KEY_SIZE: "4096" }, { kind: "RSA", bits: 4096 }],
  [{ WORKLOAD_RSA_KEY_SIZE: "1024" }, { kind: "RSA", bits: 2048 }],
  [
    { WORKLOAD_RSA_KEY_SIZE: "2048", ECC_SIGNATURE_ALGORITHM: "ECDSA" },
    { kind: "EC", curve: "P-256" },
  ],
])("with %o requests the key %o", (variables, key) => {
  expect(parse(variables).request.key).toEqual(key);
});

test.each([
  [{ CA_ROOT_CA: "SYSTEM" }, undefined],
  [{ CA_ROOT_CA: "/a.pem" }, "/a.pem"],
  [{ PILOT_CERT_PROVIDER: "custom" }, "./etc/certs/root-cert.pem"],
  [{ PROV_CERT: "/prov" }, "/prov/root-cert.pem"],
])("with %o takes the CA's roots from %s", (variables, rootFile) => {
  expect(parse(variables).ca.files.rootFile).toBe(rootFile);
});

test("sends CA_HEADER_ variables as headers", () => {
  expect(parse({ "CA_HEADER_X-Team": "blue" }).request.headers).toEqual({ "X-Team": "blue" });
});

test("serves its status on an IPv6 address", () => {
  expect(parse({ RAMPART_STATUS_ADDR: "[::1]:15020" }).statusAddress).toEqual({
    host: "::1",
    port: 15020,
  });
});

test("keeps the identity of a removed workload for up to 596 hours, which a timer can hold", () => {
  const { subject } = parse({ RAMPART_WORKLOADS: "/w", RAMPART_LINGER: "596h" });
  expect(subject).toMatchObject({ mode: "node", lingerMilliseconds: 596 * 3_600_000 });
});

test("expects the bundle at the CA by default", () => {
  const edge = { CA_ADDR: "https://ca.example.com" };
  expect(parse(edge).bundleUrl).toBe("https://ca.example.com/bundle.json");
  expect(parse({ ...edge, RAMPART_BUNDLE_URL: "off" }).bundleUrl).toBeUndefined();
  const native = parse({ CA_ADDR: "[::1]:15012" });
  expect(native).toMatchObject({ bundleUrl: "https://[::1]:15012/bundle.json" });
  // In plaintext anybody on the way could publish one.
  expect(parse({ CA_ADDR: "istiod:15010" }).bundleUrl).toBeUndefined();
  expect(parse({ CA_ADDR: "127.0.0.1:15010" }).bundleUrl).toBe(
    "http://127.0.0.1:15010/bundle.json",
  );
});

test("looks for the CRLs beside the bundle, unless told otherwise", () => {
  const edge = { CA_ADDR: "https://ca.example.com" };
  const urlOf = (more: Environment) => parse({ ...edge, ...more }).crlUrl;
  expect(urlOf({})).toBe("https://ca.example.com/crl.pem");
  expect(urlOf({ RAMPART_BUNDLE_URL: "https://b.example.com/x/bundle.json" })).toBe(
    "https://b.example.com/x/crl.pem",
  );
  expect(urlOf({ RAMPART_CRL_URL: "https://c.example.com/y" })).toBe("https://c.example.com/y");
  expect(urlOf({ RAMPART_BUNDLE_URL: "off" })).toBeUndefined();
  expect(urlOf({ RAMPART_CRL_URL: "off" })).toBeUndefined();
  expect(urlOf({ CA_ADDR: "istiod:15012" })).toBe("https://istiod:15012/crl.pem");
  expect(urlOf({ CA_ADDR: "istiod:15010" })).toBeUndefined();
});

test("has each value as the environment gives it, in the unit that its name says", () => {
  const given = {
    SECRET_TTL: "90m",
    RAMPART_BUNDLE_REFRESH: "1ms",
    RAMPART_CACHE: "/cache",
    RAMPART_CACHE_KEY_FILE: "/key",
    RAMPART_FEDERATED_ROOT_CA: "/web.pem",
    RAMPART_WORKLOAD_API_SOCKET: "/api",
    PILOT_ENABLE_CA_CRL: "false",
    PKCS8_KEY: "true",
  };
  expect(parse(given)).toMatchObject({
    request: { lifetimeSeconds: 5_400 },
    longestBundleRefreshSeconds: 1,
    cache: { folder: "/cache", keyFile: "/key" },
    federatedRootFile: "/web.pem",
    workloadApiSocket: "/api",
    crlFile: undefined,
    isPkcs8: true,
  });
  expect(parse({ PROV_CERT: "/prov" }).ca.files.clientCertificate).toEqual({
    key: "/prov/key.pem",
    chain: "/prov/cert-chain.pem",
  });
  expect(parse({})).toMatchObject({
    longestBundleRefreshSeconds: 86_400,
    cache: undefined,
    crlFile: "/var/run/secrets/istio/crl/ca-crl.pem",
    isPkcs8: false,
  });
});

test.each<[Environment, string | undefined]>([
  [{}, undefined],
  [{ ISTIOD_SAN: "istiod.test" }, "istiod.test"],
  [{ ISTIOD_SAN: "istiod.test", CA_ADDR: "ca.test:15012" }, undefined],
])("with %o expects of the CA a certificate for %s", (variables, serverName) => {
  const { address, files } = parse(variables).ca;
  expect([address.serverName, files.serverName]).toEqual([serverName, serverName]);
});

test("makes files readable for their owner alone, except in a pod", () => {
  const more = { RAMPART_OUTPUT_OWNER: "1:2", RAMPART_ON_CHANGE: "reload" };
  expect(parse({ OUTPUT_CERTS: "/out", ...more }).output).toEqual({
    folder: "/out",
    isAtomic: false,
    mode: 0o600,
    owner: { uid: 1, gid: 2 },
    onChange: "reload",
  });
  expect(parse({ RAMPART_SERVING_CERTS: "/out" }).output).toMatchObject({ isAtomic: true });
  const inPod = { OUTPUT_CERTS: "/out", KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  expect(parse(inPod).output?.mode).toBe(0o644);
});

test.each<[Environment, string]>([
  [{ POD_NAMESPACE: "" }, "POD_NAMESPACE"],
  [{ SERVICE_ACCOUNT: "Not A Name" }, "SERVICE_ACCOUNT"],
  [{ TRUST_DOMAIN: "UPPER" }, "TRUST_DOMAIN"],
  [{ SECRET_TTL: "1 day" }, "SECRET_TTL"],
  [{ RAMPART_LINGER: "597h" }, "RAMPART_LINGER: must not exceed 596h"],
  [{ FILE_DEBOUNCE_DURATION: "30000h" }, "FILE_DEBOUNCE_DURATION: must not exceed 596h"],
  [{ SECRET_GRACE_PERIOD_RATIO: "half" }, "SECRET_GRACE_PERIOD_RATIO"],
  [{ WORKLOAD_RSA_KEY_SIZE: "many" }, "WORKLOAD_RSA_KEY_SIZE"],
  [{ CA_PROVIDER: "GoogleCA" }, "CA_PROVIDER"],
  [{ CA_ADDR: "http://ca.example.com" }, "CA_ADDR"],
  [{ PILOT_CERT_PROVIDER: "none" }, "CA_ROOT_CA"],
  [{ PROV_CERT: "/a", FILE_MOUNTED_CERTS: "true" }, "exclude each other"],
  [{ RAMPART_FEDERATED_BUNDLES: "other.test=http://other.test" }, "RAMPART_FEDERATED_BUNDLES"],
  [{ RAMPART_FEDERATED_BUNDLES: "Other=https://other.test" }, "has lower-case letters"],
  [{ RAMPART_FEDERATED_BUNDLES: "o.test=https://o.test spiffe://o.test/a" }, "first bundle"],
  [
    { RAMPART_FEDERATED_BUNDLES: "o.test=https://o.test spiffe://p.test/a /b.json" },
    "SPIFFE ID of",
  ],
  [{ RAMPART_FEDERATED_BUNDLES: "o.test=https://o.test spiffe://o.test /b.json" }, "SPIFFE ID of"],
  [{ RAMPART_FEDERATED_BUNDLES: "o.test=https://o.test spiffe://o.test/a /b c" }, "<https URL>"],
  [{ RAMPART_FEDERATED_BUNDLES: "other.test" }, "RAMPART_FEDERATED_BUNDLES"],
  [{ RAMPART_FEDERATED_BUNDLES: "cluster.local=https://other.test" }, "is TRUST_DOMAIN"],
  [{ RAMPART_FEDERATED_BUNDLES: "o.test=https://a.test,o.test=https://b.test" }, "twice"],
  [{ RAMPART_STATUS_ADDR: "15020" }, "RAMPART_STATUS_ADDR"],
  [{ RAMPART_STATUS_ADDR: "::1:15020" }, "RAMPART_STATUS_ADDR"],
  [{ RAMPART_STATUS_ADDR: "two words:15020" }, "RAMPART_STATUS_ADDR"],
  [{ CA_ADDR: "ca.test:015010" }, "CA_ADDR"],
  [{ RAMPART_OUTPUT_OWNER: "root" }, "RAMPART_OUTPUT_OWNER"],
  [{ RAMPART_WORKLOADS: "/w", OUTPUT_CERTS: "/out" }, "OUTPUT_CERTS"],
  [{ ISTIO_META_CERT_SIGNER: "serving" }, "RAMPART_SERVING_CERTS"],
  ...[
    "OUTPUT_CERTS",
    "RAMPART_WORKLOADS",
    "RAMPART_WORKLOAD_API_SOCKET",
    "ISTIO_META_CERT_SIGNER",
  ].map((name): [Environment, string] => [{ RAMPART_SERVING_CERTS: "/s", [name]: "/x" }, name]),
  [{ RAMPART_SERVING_CERTS: "/s", FILE_MOUNTED_CERTS: "true" }, "FILE_MOUNTED_CERTS"],
])("refuses %o with a line that names the variable", (variables, name) => {
  expect(faultsOf(variables)).toContain(name);
});

test("names the accepted values where the schema refuses", () => {
  expect(faultsOf({ CA_PROVIDER: "Vault", WORKLOAD_RSA_KEY_SIZE: "10000" })).toBe(
    'CA_PROVIDER: must be "Citadel"\n' + "WORKLOAD_RSA_KEY_SIZE: must be at most 8192",
  );
});

test.each([
  [
    "istiod.istio-system.svc:15012",
    { protocol: "grpc", baseUrl: "https://istiod.istio-system.svc:15012" },
  ],
  ["istiod:15010", { protocol: "grpc", baseUrl: "http://istiod:15010" }],
  [
    "localhost:15012",
    { protocol: "grpc", baseUrl: "https://localhost:15012", serverName: "istiod.istio-system.svc" },
  ],
  ["https://ca.example.com", { protocol: "connect", baseUrl: "https://ca.example.com" }],
  ["http://127.0.0.1:8787", { protocol: "connect", baseUrl: "http://127.0.0.1:8787" }],
  ["grpc-web+https://ca.example.com", { protocol: "grpc-web", baseUrl: "https://ca.example.com" }],
  [
    "grpc+https://ca.example.com:15012",
    { protocol: "grpc", baseUrl: "https://ca.example.com:15012" },
  ],
  ["http://10.0.0.1:8787", undefined],
  ["http://127.0.0.1.evil.test", undefined],
  ["https://ca.example.com/path", undefined],
  ["https://user@ca.example.com", undefined],
  ["ftp://ca.example.com", undefined],
  ["istiod", undefined],
  ["istiod:99999", undefined],
  ["", undefined],
])("parses the address %s", (text, address) => {
  expect(parseCaAddress(text)).toEqual(address);
});

const drainOf = (environment: Environment) => drainPolicyOf(parseVariables(environment));

test.each<[Environment, number]>([
  [{}, 5_000],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "" }, 5_000],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "0" }, 0],
  [{ PROXY_CONFIG: "terminationDrainDuration: 30s" }, 30_000],
  [
    {
      PROXY_CONFIG: "terminationDrainDuration: 30s",
      TERMINATION_DRAIN_DURATION_SECONDS: "7",
      MINIMUM_DRAIN_DURATION: "1h",
    },
    7_000,
  ],
])("with %o drains for %d ms", (environment, milliseconds) => {
  expect(drainOf(environment)).toEqual({ kind: "fixed", milliseconds });
});

test.each<[Environment, number]>([
  [{}, 5_000],
  [{ MINIMUM_DRAIN_DURATION: "1m", TERMINATION_DRAIN_DURATION_SECONDS: "7" }, 60_000],
])("drains until no connection is left where it is asked to: %o", (environment, minimum) => {
  const drain = drainOf({ ...environment, EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "True" });
  expect(drain).toEqual({ kind: "until-idle", minimumMilliseconds: minimum });
});
