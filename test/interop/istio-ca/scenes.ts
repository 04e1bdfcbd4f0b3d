import { X509Certificate } from "node:crypto";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pemsOf, SdsStream } from "../../testkit/agent/sds-client.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { until } from "../../testkit/time/until.ts";
import { AgentProcess } from "../agent/processes/agent-process.ts";
import type { Istiod } from "../agent/xds/istiod.ts";
import type { Mesh } from "../native-grpc/mesh.ts";

/** A life half of which outlasts an outage of the CA. */
const leafSeconds = 20;

const spiffeId = "URI:spiffe://cluster.local/ns/mesh/sa/cart";

/** A pod as pilot-agent finds it, with the files that Istio mounts and the variables that Istio sets. */
interface Pod {
  readonly folder: string;
  readonly token: string;
  readonly agent: AgentProcess;
}

/** istiod as a CA, and the clusters of its callers, of which it trusts one. */
interface IstioCa {
  readonly istiod: Istiod;
  readonly mesh: Mesh;
}

interface Stage extends IstioCa {
  readonly folder: string;
  readonly pod: Pod;
}

/** Writes a token of the pod's account, by an issuer that istiod trusts or by another. */
async function writeToken(
  { mesh }: IstioCa,
  file: string,
  issuer: "ours" | "a stranger" = "ours",
): Promise<void> {
  await writeFile(file, await mesh.token({ account: "mesh/cart", issuer }));
}

export async function startPod(
  ca: IstioCa,
  folder: string,
  variables: NodeJS.ProcessEnv = {},
): Promise<Pod> {
  const secrets = join(folder, "var/run/secrets");
  await mkdir(join(secrets, "tokens"), { recursive: true });
  await mkdir(join(secrets, "istio"));
  await cp(ca.istiod.rootFile, join(secrets, "istio/root-cert.pem"));
  const token = join(secrets, "tokens/istio-token");
  await writeToken(ca, token);
  const [port = 0] = await freePorts(1);
  const environment = {
    CA_ADDR: ca.istiod.address,
    CA_PROVIDER: "Citadel",
    PILOT_CERT_PROVIDER: "istiod",
    CREDENTIAL_FETCHER_TYPE: "JWT",
    TRUST_DOMAIN: "cluster.local",
    POD_NAME: "cart-0",
    POD_NAMESPACE: "mesh",
    SERVICE_ACCOUNT: "cart",
    ISTIO_META_CLUSTER_ID: "Kubernetes",
    SECRET_TTL: `${leafSeconds}s`,
    OUTPUT_CERTS: join(folder, "certs"),
    ...variables,
  };
  await mkdir(environment.OUTPUT_CERTS);
  const agent = new AgentProcess(folder, environment, port, folder);
  agent.start();
  return { folder, token, agent };
}

export const scenes: readonly (readonly [what: string, play: (stage: Stage) => Promise<string>])[] =
  [
    ["a certificate, served by SDS, and renewals", certificates],
    ["a token of another issuer", wrongToken],
    ["the CA is away", outage],
    ["a certificate in place of the token (PROV_CERT)", provisioned],
  ];

/** The leaf and the roots that an Envoy would get. */
async function secretsOf({ folder }: Pod): Promise<[X509Certificate, string]> {
  const secret = async (name: string): Promise<string> => {
    const stream = new SdsStream(join(folder, "var/run/secrets/workload-spiffe-uds/socket"));
    stream.subscribe(name);
    const [pem = ""] = (await stream.secrets()).flatMap(pemsOf);
    stream.end();
    return pem;
  };
  return [new X509Certificate(await secret("default")), await secret("ROOTCA")];
}

async function certificates({ istiod, pod }: Stage): Promise<string> {
  await pod.agent.ready();
  const root = new X509Certificate(await readFile(istiod.rootFile));
  const serials = new Set<string>();
  const keys = new Set<string>();
  await until(
    "three certificates",
    async () => {
      const [leaf, roots] = await secretsOf(pod);
      if (leaf.subjectAltName !== spiffeId) throw new Error(`it is for ${leaf.subjectAltName}`);
      if (!leaf.verify(root.publicKey)) throw new Error("it is not the CA's");
      if (new X509Certificate(roots).fingerprint256 !== root.fingerprint256)
        throw new Error("another root than the CA's");
      serials.add(leaf.serialNumber);
      keys.add(String(leaf.publicKey.export({ type: "spki", format: "pem" })));
      return serials.size >= 3;
    },
    3 * leafSeconds,
  );
  if (keys.size !== serials.size) throw new Error("a key was used twice");
  return `leaves and root are Istio's: ${serials.size} certificates, ${keys.size} keys`;
}

/** Waits until a renewal has failed with this fault while the old certificate is still served. */
async function untilRefused(pod: Pod, words: RegExp): Promise<void> {
  await until(
    `an error like ${words}`,
    async () => {
      const { isReady, identities } = await pod.agent.status();
      if (!isReady) throw new Error("no longer ready");
      return words.test(identities[0]?.lastError ?? "");
    },
    2 * leafSeconds,
  );
  await secretsOf(pod);
}

async function untilRenewed(pod: Pod): Promise<void> {
  await until(
    "a renewal",
    async () => {
      const { identities } = await pod.agent.status();
      return identities[0]?.lastError === undefined;
    },
    2 * leafSeconds,
  );
}

async function wrongToken({ pod, ...ca }: Stage): Promise<string> {
  await untilRenewed(pod);
  await writeToken(ca, pod.token, "a stranger");
  await untilRefused(pod, /unauthenticated/i);
  await writeToken(ca, pod.token);
  await untilRenewed(pod);
  return "Unauthenticated; the certificate was kept, and renewed with a good token";
}

async function outage({ istiod, pod }: Stage): Promise<string> {
  await istiod.end();
  await untilRefused(pod, /./);
  await istiod.resume();
  await untilRenewed(pod);
  return "the certificate was served, and renewed afterwards";
}

async function provisioned({ folder, pod, ...ca }: Stage): Promise<string> {
  const machine = join(folder, "machine");
  const certificates = join(machine, "provisioned");
  await mkdir(certificates, { recursive: true });
  for (const name of ["key.pem", "cert-chain.pem", "root-cert.pem"]) {
    await cp(join(pod.folder, "certs", name), join(certificates, name));
  }
  const other = await startPod(ca, machine, {
    PROV_CERT: certificates,
    RAMPART_TOKEN_FILE: join(machine, "none"),
  });
  try {
    await other.agent.ready();
  } finally {
    await other.agent.end();
  }
  return "believed by Istio's ClientCertAuthenticator";
}
