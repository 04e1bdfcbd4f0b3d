import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";

/** The addresses of the two proxies: each listens on its own, without iptables. */
export const addresses = { web: "127.0.0.2", ledger: "127.0.0.3" } as const;

export const namespace = "foo";

interface MeshPorts {
  readonly service: number;
  readonly workload: number;
}

/** Writes the configuration of a mesh in which `web` calls `ledger` by mutual TLS, as an operator would. */
export async function writeMeshConfiguration(folder: string, ports: MeshPorts): Promise<void> {
  await mkdir(folder, { recursive: true });
  const documents = meshConfiguration(ports).map((each) => stringify(each));
  await writeFile(join(folder, "mesh.yaml"), documents.join("---\n"));
}

function meshConfiguration({ service, workload }: MeshPorts): object[] {
  const port = { number: service, name: "http", protocol: "HTTP" };
  const labels = { app: "ledger", "security.istio.io/tlsMode": "istio" };
  return [
    resource("networking.istio.io/v1", "ServiceEntry", "ledger", {
      hosts: ["ledger.mesh.test"],
      addresses: [addresses.web],
      ports: [port],
      location: "MESH_INTERNAL",
      resolution: "STATIC",
      workloadSelector: { labels: { app: "ledger" } },
    }),
    resource("networking.istio.io/v1", "WorkloadEntry", "ledger", {
      address: addresses.ledger,
      labels,
      serviceAccount: "ledger",
    }),
    resource("networking.istio.io/v1", "Sidecar", "ledger", {
      workloadSelector: { labels: { app: "ledger" } },
      ingress: [
        {
          port,
          bind: addresses.ledger,
          captureMode: "NONE",
          defaultEndpoint: `127.0.0.1:${workload}`,
        },
      ],
    }),
    resource("networking.istio.io/v1", "Sidecar", "web", {
      workloadSelector: { labels: { app: "web" } },
      egress: [{ port, bind: addresses.web, captureMode: "NONE", hosts: ["./*"] }],
    }),
    resource("security.istio.io/v1", "PeerAuthentication", "default", {
      mtls: { mode: "STRICT" },
    }),
  ];
}

function resource(apiVersion: string, kind: string, name: string, spec: object): object {
  return { apiVersion, kind, metadata: { name, namespace }, spec };
}
