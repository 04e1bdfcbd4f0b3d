import { describe, expect, test } from "vitest";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";

const inCluster = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
const name = "mesh.example.com/workload";
const pods = {};
const least = { UPSTREAM: "https://ca.test", SIGNERS: [{ name, pods }] };

test("a signer of pods needs no more than its name", () => {
  expect(SignerConfiguration.parse(least, inCluster)).toEqual({
    trustDomain: "cluster.local",
    upstream: "https://ca.test",
    upstreamRootsFile: undefined,
    cacheFolder: undefined,
    tokenFile: "/var/run/secrets/tokens/istio-token",
    cluster: "Kubernetes",
    signers: [
      {
        name,
        maximumSeconds: 86_400,
        pods: {
          namespaces: ["*"],
          key_types: ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"],
          authority: "",
        },
        services: [],
        cert_manager: [],
      },
    ],
    lease: { namespace: "istio-system", name: "rampart-signer" },
    apiServer: {
      server: "https://10.0.0.1:443",
      serverRootsFile: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
      tokenFile: "/var/run/secrets/kubernetes.io/serviceaccount/token",
    },
    monitoringListen: { host: undefined, port: 15014 },
  });
});

describe("a configuration", () => {
  const service = { account: "shop/web", dns_names: ["web.shop.svc"] };
  const one = (changes: object) => ({ SIGNERS: [{ name, pods, ...changes }] });

  test.each<[string, object, string]>([
    ["without a signer", { SIGNERS: [] }, "SIGNERS"],
    [
      "of rules of cert-manager with identities of nobody's",
      one({ cert_manager: [{ identities: ["shop"] }] }),
      "SIGNERS[0].cert_manager[0].requester",
    ],
    [
      "of rules of cert-manager for an account that is none",
      one({ cert_manager: [{ requester: "shop" }] }),
      "SIGNERS[0].cert_manager[0].requester",
    ],
    ["without SIGNERS", { SIGNERS: undefined }, "SIGNERS"],
    ["of a signer without a domain", one({ name: "workload" }), "SIGNERS[0].name"],
    ["of a signer of one label", one({ name: "mesh/workload" }), "SIGNERS[0].name"],
    [
      "of Kubernetes' own signer",
      one({ name: "kubernetes.io/kubelet-serving" }),
      "SIGNERS[0].name",
    ],
    ["of another of Kubernetes' own", one({ name: "a.kubernetes.io/b" }), "SIGNERS[0].name"],
    ["of a signer with two paths", one({ name: "a.test/b/c" }), "SIGNERS[0].name"],
    [
      "of one name twice",
      {
        SIGNERS: [
          { name, pods },
          { name, pods },
        ],
      },
      "SIGNERS",
    ],
    ["of a signer of nothing", { SIGNERS: [{ name }] }, "SIGNERS[0].pods"],
    ["of lives under an hour", one({ maximum_lifetime: "59m" }), "SIGNERS[0].maximum_lifetime"],
    ["of no namespace", one({ pods: { namespaces: [] } }), "SIGNERS[0].pods.namespaces"],
    ["of no key", one({ pods: { key_types: [] } }), "SIGNERS[0].pods.key_types"],
    ["of a strange key", one({ pods: { key_types: ["RSA2048"] } }), "SIGNERS[0].pods.key_types[0]"],
    [
      "of an account without a namespace",
      one({ services: [{ ...service, account: "web" }] }),
      "SIGNERS[0].services[0].account",
    ],
    [
      "of a service without a name",
      one({ services: [{ ...service, dns_names: [] }] }),
      "SIGNERS[0].services[0].dns_names",
    ],
    ["of a lease without a namespace", { LEASE: "rampart-signer" }, "LEASE"],
    ["of a CA without TLS", { UPSTREAM: "http://ca.test" }, "UPSTREAM"],
    ["with a mistyped key", one({ pod: {} }), "SIGNERS[0].pod"],
  ])("%s is refused", (_, changes, place) => {
    const parse = () => SignerConfiguration.parse({ ...least, ...changes }, inCluster);
    expect(parse).toThrow(ConfigurationError);
    expect(parse).toThrow(`${place}: `);
  });

  test("outside of a cluster needs the address of the API server", () => {
    expect(() => SignerConfiguration.parse(least, {})).toThrow("KUBERNETES_SERVER: is required");
  });
});
