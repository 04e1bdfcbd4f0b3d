import { expect, test } from "vitest";
import { parseVariables } from "../../../src/agent/configuration/environment.ts";
import {
  createNode,
  type NodeSources,
  parsePodFields,
} from "../../../src/agent/envoy/envoy-node.ts";
import { createMachineBootstrap } from "../../../src/agent/envoy/xds-bootstrap.ts";

const pod = { POD_NAME: "cart-1", POD_NAMESPACE: "shop", SERVICE_ACCOUNT: "cart" };

function nodeOf(environment: object, more: Partial<NodeSources> = {}) {
  return createNode({
    kind: "sidecar",
    variables: parseVariables({ ...pod, ...environment }),
    environment: { ...pod, ...environment },
    addresses: ["10.0.0.7", "fd00::7"],
    labels: undefined,
    annotations: undefined,
    ...more,
  });
}

test("describes the proxy as istiod expects it", () => {
  expect(nodeOf({ DISCOVERY_ADDRESS: "istiod:15012" })).toEqual({
    id: "sidecar~10.0.0.7~cart-1.shop~shop.svc.cluster.local",
    cluster: "istio-proxy.shop",
    locality: {},
    metadata: {
      NAME: "cart-1",
      NAMESPACE: "shop",
      SERVICE_ACCOUNT: "cart",
      INSTANCE_IPS: "10.0.0.7,fd00::7",
      CLUSTER_ID: "Kubernetes",
      PROXY_CONFIG: { discoveryAddress: "istiod:15012" },
      ENVOY_STATUS_PORT: 15_021,
      ENVOY_PROMETHEUS_PORT: 15_090,
    },
  });
});

test("makes metadata of variables, PROXY_CONFIG's among them", () => {
  const PROXY_CONFIG = JSON.stringify({
    proxyMetadata: { ISTIO_META_NETWORK: "vm", ISTIO_META_MESH_ID: "old", OTHER: "x" },
    tracing: { sampling: 1 },
  });
  const { metadata } = nodeOf({
    PROXY_CONFIG,
    ISTIO_META_MESH_ID: "mesh1",
    ISTIO_META_AUTO_REGISTER_GROUP: "vms",
    ISTIO_META_CLUSTER_ID: "c1",
    ISTIO_METAJSON_MORE: '{"POD_PORTS":"[]","N":1}',
    ISTIO_METAJSON_BROKEN: "{",
  });
  expect(metadata).toMatchObject({
    NETWORK: "vm",
    MESH_ID: "mesh1",
    AUTO_REGISTER_GROUP: "vms",
    CLUSTER_ID: "c1",
    POD_PORTS: "[]",
    N: 1,
    PROXY_CONFIG: { tracing: { sampling: 1 } },
  });
  expect(metadata).not.toHaveProperty("OTHER");
  expect(metadata).not.toHaveProperty("BROKEN");
});

test("takes labels from the environment and the kubelet, whose win, and a locality from them", () => {
  const environment = { ISTIO_METAJSON_LABELS: '{"app":"old","version":"v1"}' };
  const labels = { app: "cart", "pod-template-hash": "1234", "istio-locality": "eu.west.rack1" };
  const node = nodeOf(environment, { labels, annotations: { note: "a" } });
  expect(node.cluster).toBe("cart.shop");
  expect(node.locality).toEqual({ region: "eu", zone: "west", sub_zone: "rack1" });
  expect(node.metadata).toMatchObject({
    LABELS: { app: "cart", version: "v1", "istio-locality": "eu.west.rack1" },
    ANNOTATIONS: { note: "a" },
  });
  expect(node.metadata).not.toHaveProperty("LABELS.pod-template-hash");
});

test.each([
  [{ PROXY_CONFIG: "serviceCluster: given" }, "given"],
  [{ PROXY_CONFIG: "serviceCluster: istio-proxy" }, "istio-proxy.shop"],
  [{ ISTIO_META_WORKLOAD_NAME: "cart" }, "cart.shop"],
])("with %o is of the cluster %s", (environment, cluster) => {
  expect(nodeOf(environment).cluster).toBe(cluster);
});

test("reads the downward API's quotation", () => {
  const text =
    'app="cart"\nnote="a \\"b\\" \\\\ \\n\\t\\u00fc\\x41\\U0001f600"\nbroken=cart\n\nempty=""\n';
  expect(parsePodFields(text)).toEqual({ app: "cart", note: 'a "b" \\ \n\tüA😀', empty: "" });
});

test("binds to both families, and reaches its own by IPv6, where the first address is IPv6", async () => {
  const address = { DISCOVERY_ADDRESS: "istiod:15012", INSTANCE_IP: "fd00::5" };
  const environment = { ...pod, ...address, RAMPART_STATUS_ADDR: ":1" };
  const bootstrap = await createMachineBootstrap(environment, "sidecar");
  const text = JSON.stringify(bootstrap);
  expect(text).not.toMatch(/"address":"(?:0\.0\.0\.0|127\.0\.0\.1)"/);
  const anywhere = { address: "::", ipv4_compat: true };
  expect(bootstrap).toMatchObject({
    admin: { address: { socket_address: { address: "::1", port_value: 15_000 } } },
    static_resources: {
      listeners: [15_090, 15_021].map((port_value) => ({
        address: { socket_address: { ...anywhere, port_value } },
      })),
    },
  });
  expect(text).toContain('"socket_address":{"address":"::1","port_value":1}');
  await expect(createMachineBootstrap(pod, "sidecar")).rejects.toThrow("DISCOVERY_ADDRESS");
});
