import { expect, test } from "vitest";
import type { Environment } from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";

const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
const parse = (variables: Environment) => parseConfiguration({ ...pod, ...variables }).xds;

const DISCOVERY_ADDRESS = "istiod.example:15012";

test.each<Environment>([
  {},
  { CA_ADDR: DISCOVERY_ADDRESS },
  { DISCOVERY_ADDRESS: "" },
  { XDS_ROOT_CA: "/roots.pem", RAMPART_XDS_SOCKET: "/xds" },
  { PROXY_CONFIG: "concurrency: 2" },
])("has no XDS proxy for %o", (variables) => {
  expect(parse(variables)).toBeUndefined();
});

test("has pilot-agent's defaults", () => {
  expect(parse({ DISCOVERY_ADDRESS })).toEqual({
    socket: "etc/istio/proxy/XDS",
    istiod: {
      address: DISCOVERY_ADDRESS,
      isPlaintext: false,
      files: {
        rootFile: "./var/run/secrets/istio/root-cert.pem",
        clientCertificate: undefined,
        serverName: undefined,
      },
      preferredRootFile: "./etc/certs/root-cert.pem",
      token: { kind: "file", path: "./var/run/secrets/tokens/istio-token" },
      headers: { clusterid: "Kubernetes" },
    },
  });
});

test("takes the address of PROXY_CONFIG, unless DISCOVERY_ADDRESS says another", () => {
  const PROXY_CONFIG = "{ discoveryAddress: old:15012, configPath: /run/istio }";
  expect(parse({ PROXY_CONFIG })).toMatchObject({
    socket: "/run/istio/XDS",
    istiod: { address: "old:15012" },
  });
  expect(parse({ PROXY_CONFIG, DISCOVERY_ADDRESS })?.istiod.address).toBe(DISCOVERY_ADDRESS);
});

test.each<[Environment, string | undefined]>([
  [{ XDS_ROOT_CA: "SYSTEM" }, undefined],
  [{ XDS_ROOT_CA: "/a.pem", PROV_CERT: "/prov" }, "/a.pem"],
  [{ PROV_CERT: "/prov" }, "/prov/root-cert.pem"],
  [{ FILE_MOUNTED_CERTS: "true", ISTIO_META_TLS_CLIENT_ROOT_CERT: "/m.pem" }, "/m.pem"],
  [{ ISTIO_META_TLS_CLIENT_ROOT_CERT: "/m.pem" }, "./var/run/secrets/istio/root-cert.pem"],
])("with %o takes istiod's roots from %s", (variables, rootFile) => {
  expect(parse({ DISCOVERY_ADDRESS, ...variables })?.istiod.files.rootFile).toBe(rootFile);
});

test.each([
  [{ PROV_CERT: "/p" }, { key: "/p/key.pem", chain: "/p/cert-chain.pem" }],
  [
    {
      FILE_MOUNTED_CERTS: "true",
      ISTIO_META_TLS_CLIENT_KEY: "/k.pem",
      ISTIO_META_TLS_CLIENT_CERT_CHAIN: "/c.pem",
    },
    { key: "/k.pem", chain: "/c.pem" },
  ],
  [{ ISTIO_META_TLS_CLIENT_KEY: "/k.pem" }, undefined],
])("with %o shows istiod %o", (variables, certificate) => {
  const xds = parse({ DISCOVERY_ADDRESS, ...variables });
  expect(xds?.istiod.files.clientCertificate).toEqual(certificate);
});

test.each<[Environment, string | undefined]>([
  [{ DISCOVERY_ADDRESS: "localhost:15012" }, "istiod.istio-system.svc"],
  [{ DISCOVERY_ADDRESS, ISTIOD_SAN: "istiod.test" }, "istiod.test"],
  [{ DISCOVERY_ADDRESS, ISTIOD_SAN: "istiod.test", CA_ADDR: "ca.test:443" }, "istiod.test"],
])("with %o expects a certificate for %s", (variables, serverName) => {
  expect(parse(variables)?.istiod.files.serverName).toBe(serverName);
});

test("sends XDS_HEADER_ variables as headers", () => {
  const xds = parse({ DISCOVERY_ADDRESS, "XDS_HEADER_X-Team": "blue" });
  expect(xds?.istiod.headers).toEqual({ clusterid: "Kubernetes", "x-team": "blue" });
});

test("speaks plaintext where PROXY_CONFIG says so", () => {
  const PROXY_CONFIG = "{ discoveryAddress: istiod:15010, controlPlaneAuthPolicy: NONE }";
  expect(parse({ PROXY_CONFIG, PILOT_CERT_PROVIDER: "none", CA_ROOT_CA: "SYSTEM" })).toMatchObject({
    istiod: { isPlaintext: true },
  });
});

test.each<[Environment, string]>([
  [{ DISCOVERY_ADDRESS: "istiod" }, "DISCOVERY_ADDRESS: must be host:port"],
  [{ DISCOVERY_ADDRESS: "https://istiod:15012" }, "DISCOVERY_ADDRESS: must be host:port"],
  [{ DISCOVERY_ADDRESS: "istiod:15010" }, "controlPlaneAuthPolicy: NONE"],
  [
    { CA_ADDR: "ca.test:443", PROXY_CONFIG: "discoveryAddress: istiod" },
    "PROXY_CONFIG.discoveryAddress: must be host:port",
  ],
  [{ DISCOVERY_ADDRESS, RAMPART_WORKLOADS: "/w" }, "DISCOVERY_ADDRESS: a node's agent"],
  [
    { DISCOVERY_ADDRESS, PILOT_CERT_PROVIDER: "none", CA_ROOT_CA: "SYSTEM" },
    "XDS_ROOT_CA: is required",
  ],
])("refuses %o", (variables, sentence) => {
  expect(() => parse(variables)).toThrow(sentence);
});

const probed = "readinessProbe: { tcpSocket: { port: 8080 } }";
const health = (variables: Environment) => parseConfiguration({ ...pod, ...variables }).health;

test("probes the workload at the proxy's address", () => {
  const PROXY_CONFIG = `{ ${probed} }`;
  const base = { DISCOVERY_ADDRESS, PROXY_CONFIG, INSTANCE_IP: "10.0.0.7" };
  expect(health(base)).toMatchObject({
    probe: { method: { kind: "tcp", port: 8080 } },
    addresses: { host: "10.0.0.7", localAddress: "127.0.0.6" },
  });
  const legacy = { ...base, REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION: "true" };
  expect(health(legacy)?.addresses.host).toBe("localhost");
  expect(health({ ...base, INSTANCE_IP: "fd00::7" })?.addresses).toEqual({
    host: "fd00::7",
    localAddress: undefined,
  });
});

test("probes nothing where no istiod is told, or no probe is given", () => {
  expect(health({ PROXY_CONFIG: `{ ${probed} }` })).toBeUndefined();
  expect(health({ DISCOVERY_ADDRESS })).toBeUndefined();
});
