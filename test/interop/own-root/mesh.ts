import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pemsOf, SdsStream } from "../../testkit/agent/sds-client.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { AgentProcess } from "../agent/processes/agent-process.ts";
import type { ServingCa } from "../revocation/serving-ca.ts";

/** A life half of which outlasts a busy moment, and that makes every phase of an authority short. */
export const leafSeconds = 15;

/** What every CA of the suite has in its configuration. */
export const shortLives = {
  CRL: "off",
  PROPAGATION_INTERVAL: "1s",
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
};

/** An agent, and the socket of its Envoy. */
export interface Workload {
  readonly agent: AgentProcess;
  readonly socket: string;
}

/** Starts `rampart agent` for `mesh:<name>`. */
export async function startAgent(
  { mesh, address, rootFile, published }: ServingCa,
  folder: string,
  name: string,
  trustDomain = "cluster.local",
): Promise<Workload> {
  const tokenFile = join(folder, `token-${name}`);
  await writeFile(tokenFile, await mesh.token({ account: `mesh/${name}` }));
  const socket = join(folder, `sds-${name}`);
  const [port = 0] = await freePorts(1);
  const environment = {
    CA_ADDR: address,
    CA_ROOT_CA: rootFile,
    RAMPART_BUNDLE_URL: `${published}/bundle.json`,
    SECRET_TTL: `${leafSeconds}s`,
    SECRET_GRACE_PERIOD_RATIO: "0.6",
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: name,
    TRUST_DOMAIN: trustDomain,
    RAMPART_TOKEN_FILE: tokenFile,
    RAMPART_SDS_SOCKET: socket,
  };
  const agent = new AgentProcess(folder, environment, port);
  agent.start();
  await agent.ready();
  return { agent, socket };
}

/** The certificates that an Envoy has now: its leaf, then what is between that and a root. */
export async function chainOf({ socket }: Workload): Promise<readonly X509Certificate[]> {
  const stream = new SdsStream(socket);
  stream.subscribe("default");
  const [pem = ""] = (await stream.secrets()).flatMap(pemsOf);
  stream.end();
  return pem.split(/(?=-----BEGIN CERTIFICATE)/).map((each) => new X509Certificate(each));
}

/** The intermediate that has signed the leaf of an Envoy. */
export async function intermediateOf(workload: Workload): Promise<X509Certificate> {
  const [, intermediate] = await chainOf(workload);
  if (!intermediate) throw new Error("a chain without an intermediate");
  return intermediate;
}
