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

const PROXY_CONFIG = "{ discoveryAddress: old:15012, configPath: /run/istio }";
const filesOf = (files: object) => ({ istiod: { files } });
const mounted = {
  FILE_MOUNTED_CERTS: "true",
  ISTIO_META_TLS_CLIENT_ROOT_CERT: "/m.pem",
  ISTIO_META_TLS_CLIENT_KEY: "/k.pem",
  ISTIO_META_TLS_CLIENT_CERT_CHAIN: "/c.pem",
};

test.each<[Environment, object]>([
  [
    { PROXY_CONFIG, DISCOVERY_ADDRESS: "" },
    { socket: "/run/istio/XDS", istiod: { address: "old:15012" } },
  ],
  [{ PROXY_CONFIG }, { istiod: { address: DISCOVERY_ADDRESS } }],
  [{ XDS_ROOT_CA: "SYSTEM" }, filesOf({ rootFile: undefined })],
  [{ XDS_ROOT_CA: "/a.pem", PROV_CERT: "/prov" }, filesOf({ rootFile: "/a.pem" })],
  [
    { PROV_CERT: "/p" },
    filesOf({
      rootFile: "/p/root-cert.pem",
      clientCertificate: { key: "/p/key.pem", chain: "/p/cert-chain.pem" },
    }),
  ],
  [mounted, filesOf({ rootFile: "/m.pem", clientCertificate: { key: "/k.pem", chain: "/c.pem" } })],
  [
    { ...mounted, FILE_MOUNTED_CERTS: "" },
    filesOf({
      rootFile: "./var/run/secrets/istio/root-cert.pem",
      clientCertificate: undefined,
    }),
  ],
  [{ DISCOVERY_ADDRESS: "localhost:15012" }, filesOf({ serverName: "istiod.istio-system.svc" })],
  [{ ISTIOD_SAN: "istiod.test" }, filesOf({ serverName: "istiod.test" })],
  [{ ISTIOD_SAN: "istiod.test", CA_ADDR: "ca.test:443" }, filesOf({ serverName: "istiod.test" })],
  [
    { "XDS_HEADER_X-Team": "blue" },
    { istiod: { headers: { clusterid: "Kubernetes", "x-team": "blue" } } },
  ],
  [
    {
      ...{ DISCOVERY_ADDRESS: "", PILOT_CERT_PROVIDER: "none", CA_ROOT_CA: "SYSTEM" },
      PROXY_CONFIG: "{ discoveryAddress: istiod:15010, controlPlaneAuthPolicy: NONE }",
    },
    { istiod: { isPlaintext: true } },
  ],
])("reads %o as %o", (variables, expected) => {
  expect(parse({ DISCOVERY_ADDRESS, ...variables })).toMatchObject(expected);
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
