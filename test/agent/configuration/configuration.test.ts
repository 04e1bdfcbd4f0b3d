import { expect, test } from "vitest";
import { parseCaAddress } from "../../../src/agent/configuration/ca-settings.ts";
import { type Environment, parseVariables } from "../../../src/agent/configuration/environment.ts";
import { drainPolicyOf, parseConfiguration } from "../../../src/agent/configuration.ts";
import { ConfigurationError } from "../../../src/foundation/errors.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const parse = (variables: Environment) => parseConfiguration({ ...pod, ...variables });

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
    bundleUrl: "https://istiod.istio-system.svc:15012/bundle.json",
    longestBundleRefreshSeconds: 86_400,
    cache: undefined,
    crlFile: "/var/run/secrets/istio/crl/ca-crl.pem",
    isPkcs8: false,
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
});

const p256 = { kind: "EC", curve: "P-256" };
const keyOf = (key: object) => ({ request: { key } });
const rootFileOf = (rootFile: string | undefined) => ({ ca: { files: { rootFile } } });
const namedBy = (serverName: string) => ({
  ca: { address: { serverName }, files: { serverName } },
});
const unnamed = {
  ca: {
    address: expect.not.objectContaining({ serverName: expect.anything() }),
    files: { serverName: undefined },
  },
};
const edge = { CA_ADDR: "https://ca.example.com" };
const bundle = "https://b.example.com/x/bundle.json";

test.each<[Environment, object]>([
  [{ ECC_SIGNATURE_ALGORITHM: "ECDSA", ECC_CURVE: "P384" }, keyOf({ kind: "EC", curve: "P-384" })],
  [{ ECC_SIGNATURE_ALGORITHM: "ECDSA", ECC_CURVE: "P521" }, keyOf(p256)],
  [{ WORKLOAD_RSA_KEY_SIZE: "4096" }, keyOf({ kind: "RSA", bits: 4096 })],
  [{ WORKLOAD_RSA_KEY_SIZE: "1024" }, keyOf({ kind: "RSA", bits: 2048 })],
  [{ WORKLOAD_RSA_KEY_SIZE: "2048", ECC_SIGNATURE_ALGORITHM: "ECDSA" }, keyOf(p256)],
  [{ CA_ROOT_CA: "SYSTEM" }, rootFileOf(undefined)],
  [{ CA_ROOT_CA: "/a.pem" }, rootFileOf("/a.pem")],
  [{ PILOT_CERT_PROVIDER: "custom" }, rootFileOf("./etc/certs/root-cert.pem")],
  [{ "CA_HEADER_X-Team": "blue" }, { request: { headers: { "X-Team": "blue" } } }],
  [{ RAMPART_STATUS_ADDR: "[::1]:15020" }, { statusAddress: { host: "::1", port: 15020 } }],
  // The longest that a timer can hold.
  [
    { RAMPART_WORKLOADS: "/w", RAMPART_LINGER: "596h" },
    { subject: { mode: "node", lingerMilliseconds: 596 * 3_600_000 } },
  ],
  [
    edge,
    { bundleUrl: "https://ca.example.com/bundle.json", crlUrl: "https://ca.example.com/crl.pem" },
  ],
  [
    { ...edge, RAMPART_BUNDLE_URL: "off" },
    { bundleUrl: undefined, crlUrl: undefined },
  ],
  [{ ...edge, RAMPART_BUNDLE_URL: bundle }, { crlUrl: "https://b.example.com/x/crl.pem" }],
  [{ RAMPART_CRL_URL: "https://c.example.com/y" }, { crlUrl: "https://c.example.com/y" }],
  [{ ...edge, RAMPART_CRL_URL: "off" }, { crlUrl: undefined }],
  [
    { CA_ADDR: "[::1]:15012" },
    { bundleUrl: "https://[::1]:15012/bundle.json", crlUrl: "https://[::1]:15012/crl.pem" },
  ],
  // In plaintext anybody on the way could publish one.
  [{ CA_ADDR: "istiod:15010" }, { bundleUrl: undefined, crlUrl: undefined }],
  [{ CA_ADDR: "127.0.0.1:15010" }, { bundleUrl: "http://127.0.0.1:15010/bundle.json" }],
  [{ SECRET_TTL: "90m" }, { request: { lifetimeSeconds: 5_400 } }],
  [{ RAMPART_BUNDLE_REFRESH: "1ms" }, { longestBundleRefreshSeconds: 1 }],
  [
    { RAMPART_CACHE: "/cache", RAMPART_CACHE_KEY_FILE: "/key" },
    { cache: { folder: "/cache", keyFile: "/key" } },
  ],
  [{ RAMPART_FEDERATED_ROOT_CA: "/web.pem" }, { federatedRootFile: "/web.pem" }],
  [{ RAMPART_WORKLOAD_API_SOCKET: "/api" }, { workloadApiSocket: "/api" }],
  [{ PILOT_ENABLE_CA_CRL: "false" }, { crlFile: undefined }],
  [{ PKCS8_KEY: "true" }, { isPkcs8: true }],
  [
    { PROV_CERT: "/prov" },
    {
      ca: {
        files: {
          rootFile: "/prov/root-cert.pem",
          clientCertificate: { key: "/prov/key.pem", chain: "/prov/cert-chain.pem" },
        },
      },
    },
  ],
  [{}, unnamed],
  [{ ISTIOD_SAN: "istiod.test" }, namedBy("istiod.test")],
  [{ ISTIOD_SAN: "istiod.test", CA_ADDR: "ca.test:15012" }, unnamed],
])("reads %o as %o", (variables, expected) => {
  expect(parse(variables)).toMatchObject(expected);
});

test("makes files readable for their owner alone, except in a pod", () => {
  const owner = { RAMPART_OUTPUT_OWNER: "1:2", RAMPART_ON_CHANGE: "reload" };
  expect(parse({ OUTPUT_CERTS: "/out", ...owner }).output).toEqual({
    ...{ folder: "/out", isAtomic: false, mode: 0o600, owner: { uid: 1, gid: 2 } },
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
  const parsing = () => parse(variables);
  expect(parsing).toThrow(ConfigurationError);
  expect(parsing).toThrow(name);
});

test("names the accepted values where the schema refuses", () => {
  expect(() => parse({ CA_PROVIDER: "Vault", WORKLOAD_RSA_KEY_SIZE: "10000" })).toThrow(
    'CA_PROVIDER: must be "Citadel"\nWORKLOAD_RSA_KEY_SIZE: must be at most 8192',
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

const untilIdle = { EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "True" };
const [seven, minute] = [
  { TERMINATION_DRAIN_DURATION_SECONDS: "7" },
  { MINIMUM_DRAIN_DURATION: "1m" },
];

test.each<[Environment, object]>([
  [{}, { kind: "fixed", milliseconds: 5_000 }],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "" }, { kind: "fixed", milliseconds: 5_000 }],
  [{ TERMINATION_DRAIN_DURATION_SECONDS: "0" }, { kind: "fixed", milliseconds: 0 }],
  [{ PROXY_CONFIG: "terminationDrainDuration: 30s" }, { kind: "fixed", milliseconds: 30_000 }],
  [
    { PROXY_CONFIG: "terminationDrainDuration: 30s", ...seven, ...minute },
    { kind: "fixed", milliseconds: 7_000 },
  ],
  [untilIdle, { kind: "until-idle", minimumMilliseconds: 5_000 }],
  [
    { ...untilIdle, ...seven, ...minute },
    { kind: "until-idle", minimumMilliseconds: 60_000 },
  ],
])("with %o drains as %o says", (environment, drain) => {
  expect(drainOf(environment)).toEqual(drain);
});
