import { expect, test } from "vitest";
import { type ListenerFlags, parseListeners } from "../../../../src/agent/bootstrap.ts";
import { createBootstrap } from "../../../../src/agent/envoy/envoy-bootstrap.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";

const cart = "spiffe://cluster.local/ns/shop/sa/cart";
const none = { inbound: [], outbound: [], ingress: [], egress: [], allow: [] };
const parse = (flags: Partial<ListenerFlags>) =>
  parseListeners({ ...none, ...flags }, clusterLocal);

function passageOf(flags: Partial<ListenerFlags>) {
  const address = { host: "127.0.0.1", port: 15_000 };
  const bootstrap = createBootstrap({
    nodeId: "n",
    nodeCluster: "c",
    sdsSocket: "/sds",
    admin: address,
    ...parse(flags),
  });
  const { static_resources } = JSON.parse(JSON.stringify(bootstrap));
  const [listener] = static_resources.listeners;
  const [, cluster] = static_resources.clusters;
  return { listener: listener.filter_chains[0], cluster };
}

const ingress = `0.0.0.0:8443=/tls/chain.pem~/tls/key.pem=cart.shop.svc:15006=${cart}`;

test("an ingress with a client CA admits only clients with a certificate of it", () => {
  const { listener } = passageOf({ ingress: [ingress], clientCa: "/tls/clients.pem" });
  expect(listener.transport_socket.typed_config).toMatchObject({
    require_client_certificate: true,
    common_tls_context: {
      validation_context_sds_secret_config: { name: "file-root:/tls/clients.pem" },
    },
  });
});

test("an egress to an address expects a certificate for that address", () => {
  const { cluster } = passageOf({ egress: ["0.0.0.0:9443=192.0.2.1:443=system"] });
  const { sni, common_tls_context: context } = cluster.transport_socket.typed_config;
  expect(sni).toBeUndefined();
  expect(
    context.combined_validation_context.default_validation_context.match_typed_subject_alt_names,
  ).toEqual([{ san_type: "IP_ADDRESS", matcher: { exact: "192.0.2.1" } }]);
});

test("files have absolute paths, because the agent may run in another folder", () => {
  const { ingress: [listener] = [] } = parse({
    ingress: [ingress.replaceAll("/tls/", "tls/")],
  });
  expect(listener?.certificate.chainFile).toBe(`${process.cwd()}/tls/chain.pem`);
});

test.each<[Partial<ListenerFlags>, string]>([
  [{}, "at least one"],
  [{ ingress: [ingress.replace("~", "")] }, "is not <chain file>~<key file>"],
  [{ ingress: [ingress.replace("~/tls/key.pem", "~")] }, "is not <chain file>~<key file>"],
  [{ ingress: [ingress.replace(`=${cart}`, "")] }, "is not a workload's SPIFFE ID"],
  [{ ingress: [ingress.replace(":8443", "")] }, "is not host:port"],
  [{ outbound: [`a:1=b:2=${cart}`], clientCa: "/ca" }, "there is none"],
  [{ egress: ["0.0.0.0:9443=api.example.com:443"] }, "names no roots"],
  [{ egress: ["0.0.0.0:9443=api.example.com=system"] }, "is not host:port"],
  [{ egress: ["0.0.0.0:9443=a:443=system"], allow: ["cart"] }, "is not a workload's SPIFFE ID"],
  [
    { egress: ["0.0.0.0:9443=a:443=system"], allow: ["spiffe://Mesh.Test/ns/a/sa/b"] },
    "is not a workload's SPIFFE ID: a trust domain has lower-case letters",
  ],
])("refuses %o", (flags, words) => {
  expect(() => parse(flags)).toThrow(words);
});

test.each([
  [["10.0.0.7"], "V4_ONLY"],
  [["fd00::7"], "V6_ONLY"],
  [["10.0.0.7", "fd00::7"], "V4_PREFERRED"],
])("Envoy resolves names for a machine with %j to %s", (addresses, family) => {
  const admin = { host: "127.0.0.1", port: 15_000 };
  const options = { nodeId: "n", nodeCluster: "c", sdsSocket: "/sds", admin, addresses };
  const outbound = parse({ outbound: [`127.0.0.1:1=cart.shop.svc:2=${cart}`] });
  const { static_resources } = JSON.parse(
    JSON.stringify(createBootstrap({ ...options, ...outbound })),
  );
  expect(static_resources.clusters[1]).toMatchObject({
    type: "STRICT_DNS",
    dns_lookup_family: family,
  });
});
