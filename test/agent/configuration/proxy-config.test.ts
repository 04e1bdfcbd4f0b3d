import { expect, test } from "vitest";
import { parseVariables, type Variables } from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";

const parse = (yaml: string): Variables["PROXY_CONFIG"] =>
  parseVariables({ PROXY_CONFIG: yaml }).PROXY_CONFIG;

test.each([[""], ["{}"], ["# nothing"]])("has Istio's defaults for %o", (yaml) => {
  expect(parse(yaml).discoveryAddress).toBeUndefined();
  expect(parse(yaml).readinessProbe).toBeUndefined();
  expect(parse(yaml)).toMatchObject({
    isPlaintext: false,
    configPath: "./etc/istio/proxy",
    proxyAdminPort: 15_000,
    statusPort: 15_020,
    drainMilliseconds: 45_000,
    terminationDrainMilliseconds: undefined,
    proxyMetadata: {},
  });
});

test("reads YAML and JSON, in both spellings of protobuf", () => {
  const expected = {
    discoveryAddress: "istiod.example:15012",
    drainMilliseconds: 10_000,
    terminationDrainMilliseconds: 1_500,
    concurrency: 2,
    proxyMetadata: { ISTIO_META_NETWORK: "vm_net", DEBUG: "true" },
  };
  const yaml = `
discoveryAddress: istiod.example:15012
drainDuration: 10s
terminationDrainDuration: 1.5s
concurrency: 2
proxyMetadata: { ISTIO_META_NETWORK: vm_net, DEBUG: true }
`;
  expect(parse(yaml)).toMatchObject(expected);
  const json = {
    discovery_address: "istiod.example:15012",
    drain_duration: "10s",
    termination_drain_duration: "1.5s",
    concurrency: "2",
    proxy_metadata: expected.proxyMetadata,
  };
  expect(parse(JSON.stringify(json))).toMatchObject(expected);
});

test("keeps what it does not read, for istiod", () => {
  const { given } = parse("tracing: { zipkin: { address: zipkin:9411 } }\nstat_name_length: 189");
  expect(given).toEqual({ tracing: { zipkin: { address: "zipkin:9411" } }, statNameLength: 189 });
});

test("is where the CA is by default, as in pilot-agent", () => {
  const pod = { POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
  const PROXY_CONFIG = "discoveryAddress: istiod.example:15012";
  const baseUrl = (variables: object) =>
    parseConfiguration({ ...pod, ...variables }).ca.address.baseUrl;
  expect(baseUrl({ PROXY_CONFIG })).toBe("https://istiod.example:15012");
  expect(baseUrl({ PROXY_CONFIG, CA_ADDR: "https://ca.example" })).toBe("https://ca.example");
});

const timing = {
  ...{ initialDelaySeconds: 0, timeoutSeconds: 1, periodSeconds: 10 },
  ...{ successThreshold: 1, failureThreshold: 1 },
};

const header = { name: "a", value: "b" };
const http = { kind: "http", scheme: "http", port: 8080, path: "/", httpHeaders: [] };

test.each([
  ["httpGet: { port: 8080 }", { ...http, host: undefined }],
  [
    "httpGet: { port: 8080, path: live, host: app, scheme: HTTPS, httpHeaders: [{ name: a, value: b }] }",
    { ...http, scheme: "https", host: "app", path: "/live", httpHeaders: [header] },
  ],
  ["tcpSocket: { port: 22 }", { kind: "tcp", host: undefined, port: 22 }],
  ["grpc: { port: 9090 }", { kind: "grpc", port: 9090, service: "" }],
  ["exec: { command: [/bin/true, -v] }", { kind: "exec", command: ["/bin/true", "-v"] }],
])("reads the probe %s", (probe, method) => {
  expect(parse(`readinessProbe: { ${probe} }`).readinessProbe).toEqual({ method, ...timing });
});

test("reads the times of a probe, in which 0 is unset", () => {
  const times = "initialDelaySeconds: 5, timeoutSeconds: 0, periodSeconds: 3, failure_threshold: 2";
  const expected = { ...timing, initialDelaySeconds: 5, periodSeconds: 3, failureThreshold: 2 };
  const { readinessProbe } = parse(`readiness_probe: { tcp_socket: { port: 1 }, ${times} }`);
  expect(readinessProbe).toMatchObject(expected);
});

test.each([
  ["[]", "PROXY_CONFIG: must be a YAML or JSON object"],
  ["text", "PROXY_CONFIG: must be a YAML or JSON object"],
  ["{", "PROXY_CONFIG: must be a YAML or JSON object"],
  ["drainDuration: long", "PROXY_CONFIG.drainDuration: must be a duration"],
  ["drainDuration: 45", "PROXY_CONFIG.drainDuration"],
  ["concurrency: -1", "PROXY_CONFIG.concurrency"],
  ["proxyAdminPort: 70000", "PROXY_CONFIG.proxyAdminPort"],
  ["controlPlaneAuthPolicy: SOME", "PROXY_CONFIG.controlPlaneAuthPolicy"],
  ["proxyMetadata: { A: [] }", "PROXY_CONFIG.proxyMetadata.A"],
  ["readinessProbe: {}", "PROXY_CONFIG.readinessProbe: must have exactly one of"],
  [
    "readinessProbe: { tcpSocket: { port: 1 }, grpc: { port: 1 } }",
    "PROXY_CONFIG.readinessProbe: must have exactly one of",
  ],
  ["readinessProbe: { httpGet: { port: 0 } }", "PROXY_CONFIG.readinessProbe.httpGet.port"],
  ["readinessProbe: { exec: { command: [] } }", "PROXY_CONFIG.readinessProbe.exec.command"],
  [
    "readinessProbe: { tcpSocket: { port: 1 }, periodSeconds: -1 }",
    "PROXY_CONFIG.readinessProbe.periodSeconds",
  ],
])("refuses %o with a line that names the field", (yaml, sentence) => {
  expect(() => parse(yaml)).toThrow(sentence);
});
