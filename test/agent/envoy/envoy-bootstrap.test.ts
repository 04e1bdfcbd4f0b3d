import { expect, test } from "vitest";
import { type ListenerFlags, parseListeners } from "../../../src/agent/bootstrap.ts";
import { createBootstrap } from "../../../src/agent/envoy/envoy-bootstrap.ts";
import type { CompliancePolicy } from "../../../src/program/tls-policy.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";

const [cart, pay] = ["cart", "pay"].map((name) => `spiffe://cluster.local/ns/shop/sa/${name}`);
const all = {
  inbound: ["0.0.0.0:1=127.0.0.1:2"],
  outbound: [`127.0.0.1:3=pay.shop.svc:4=${pay}`],
  ingress: [`0.0.0.0:5=/chain.pem~/key.pem=cart.shop.svc:6=${cart}`],
  egress: ["0.0.0.0:7=api.test:443=system"],
  allow: [],
};

/** The TLS context and the settings for HTTP of each listener, and the TLS context of each cluster, in their order. */
function passagesOf(flags: Partial<ListenerFlags>, policy: CompliancePolicy = "") {
  const admin = { host: "127.0.0.1", port: 15_000 };
  const names = { nodeId: "n", nodeCluster: "c", sdsSocket: "/sds" };
  const listeners = parseListeners({ ...all, ...flags }, clusterLocal);
  const { static_resources } = JSON.parse(
    JSON.stringify(createBootstrap({ ...names, admin, policy, ...listeners })),
  );
  // The first cluster is that of the SDS.
  const [, ...clusters] = static_resources.clusters;
  return static_resources.listeners.map(
    // biome-ignore lint/suspicious/noExplicitAny: Envoy's configuration has no type here.
    ({ filter_chains: [{ filters, transport_socket }] }: any, i: number) => ({
      server: transport_socket?.typed_config,
      http: filters[0].typed_config,
      client: clusters[i].transport_socket?.typed_config,
    }),
  );
}

/** Mutual TLS of the mesh with exactly the peers that these matchers accept. */
const meshContext = (...matchers: object[]) => ({
  tls_certificate_sds_secret_configs: [{ name: "default" }],
  combined_validation_context: {
    default_validation_context: {
      match_typed_subject_alt_names: matchers.map((matcher) => ({ san_type: "URI", matcher })),
    },
    validation_context_sds_secret_config: { name: "ROOTCA" },
  },
});

test.each([
  [[], [{ prefix: "spiffe://cluster.local/" }]],
  [
    [cart ?? "", pay ?? ""],
    [{ exact: cart }, { exact: pay }],
  ],
])(
  "listeners of the mesh require a certificate of %j, and tell the workload whose it was",
  (allow, peers) => {
    const [inbound, , , egress] = passagesOf({ allow });
    for (const { server, http } of [inbound, egress]) {
      expect(server).toMatchObject({
        require_client_certificate: true,
        common_tls_context: meshContext(...peers),
      });
      expect(http).toMatchObject({
        forward_client_cert_details: "SANITIZE_SET",
        set_current_client_cert_details: { uri: true },
      });
    }
  },
);

test("calls into the mesh go to the peer that is named, and calls out of it to a server of that name", () => {
  const [inbound, outbound, ingress, egress] = passagesOf({ allow: [cart ?? ""] });
  expect([inbound.client, outbound.server]).toEqual([undefined, undefined]);
  expect(outbound.client).toMatchObject({
    sni: "pay.shop.svc",
    common_tls_context: meshContext({ exact: pay }),
  });
  expect(ingress.client).toMatchObject({
    sni: "cart.shop.svc",
    common_tls_context: meshContext({ exact: cart }),
  });
  const names = [{ san_type: "DNS", matcher: { exact: "api.test" } }];
  expect(egress.client).toMatchObject({
    sni: "api.test",
    common_tls_context: {
      combined_validation_context: {
        default_validation_context: { match_typed_subject_alt_names: names },
        validation_context_sds_secret_config: { name: "file-root:system" },
      },
    },
  });
});

test.each([
  [undefined, "SANITIZE"],
  ["/clients.pem", "SANITIZE_SET"],
])(
  "nobody outside with the CA %s claims to be another address or client: %s",
  (clientCa, details) => {
    const [, , { server, http }] = passagesOf(clientCa === undefined ? {} : { clientCa });
    expect(server.require_client_certificate).toBe(clientCa === undefined ? undefined : true);
    expect(http).toMatchObject({
      use_remote_address: true,
      normalize_path: true,
      forward_client_cert_details: details,
    });
  },
);

test.each([
  ["", "TLSv1_2"],
  ["pqc", "TLSv1_3"],
] as const)("the policy %j is that of each listener and each cluster: %s", (policy, least) => {
  const contexts = passagesOf({}, policy).flatMap(({ server, client }: Record<string, object>) =>
    [server, client].filter((each) => each !== undefined),
  );
  expect(contexts).toHaveLength(6);
  for (const context of contexts)
    expect(context).toMatchObject({
      common_tls_context: { tls_params: { tls_minimum_protocol_version: least } },
    });
});
