import assert from "node:assert/strict";
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse as parseToml } from "smol-toml";
import {
  type Block,
  blocksOf,
  clusterPages,
  inCluster,
  isTyped,
} from "../../pages/shell-blocks.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { until } from "../../testkit/time/until.ts";
import type { Row } from "../outcome-table.ts";
import { missingLine } from "../pages/expectation.ts";
import { environmentIn } from "../pages/scenes.ts";
import { openTerminal, type Terminal } from "../pages/terminal.ts";
import type { ControlPlane, Json } from "./cluster/control-plane.ts";
import { writeKubeconfig } from "./cluster/kubeconfig.ts";

const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
const page = "docs/tutorials/serve-on-kubernetes.md";
const joining = "docs/tutorials/two-roots.md";
const moving = "docs/tutorials/migrate-from-istiod.md";

/** The headings whose blocks are typed before the CA runs, and those that ask it. */
const before = ["2. Make the KEK", "3. Install the chart"];
const after = ["4. See that it signs", "5. Ask for a certificate"];

interface Scene {
  readonly plane: ControlPlane;
  readonly folder: string;
  readonly helm: string;
}

/** Types the page into a shell whose folder has the chart. */
async function followTutorial({ plane, folder, helm }: Scene): Promise<void> {
  const left = blocksOf(page).filter((block) => isTyped(block) && !isUnder(block.heading));
  assert.deepEqual(left, [], "nobody types these blocks");
  const terminal = await terminalOf(plane, folder, helm);
  // The controllers of a real cluster make this account.
  await plane.call("POST", "/api/v1/namespaces/default/serviceaccounts", {
    metadata: { name: "default" },
  });
  const typeSection = (
    heading: string,
    ports?: Readonly<Record<string, number>>,
  ): Promise<void> => {
    const blocks = blocksOf(page).filter((each) => each.heading === heading);
    return typeBlocks(terminal, blocks, isTyped, ports);
  };
  let ca: ServedCa | undefined;
  try {
    const install = async (): Promise<void> => {
      for (const heading of before) await typeSection(heading);
    };
    await Promise.all([install(), rollOut(plane)]);
    ca = await serveAsPod(plane, folder);
    const ports = { "15012": ca.port, "15014": ca.monitoringPort };
    for (const heading of after) await typeSection(heading, ports);
    await takeOverFromIstiod(plane, terminal, folder);
    await typeOtherPages(plane, terminal, folder, ca);
  } finally {
    await ca?.end();
    await terminal.end();
  }
}

const isUnder = (heading: string): boolean => [...before, ...after].includes(heading);

async function terminalOf(plane: ControlPlane, folder: string, helm: string): Promise<Terminal> {
  const KUBECONFIG = join(folder, "kubeconfig");
  await writeKubeconfig(plane, KUBECONFIG);
  const environment = await environmentIn(folder);
  await symlink(helm, join(folder, ".home/bin/helm"));
  await cp(join(import.meta.dirname, "../../../deploy"), join(folder, "deploy"), {
    recursive: true,
  });
  await mkdir(join(folder, ".home/.kube"));
  await symlink(KUBECONFIG, join(folder, ".home/.kube/config"));
  return openTerminal(folder, { ...environment, KUBECONFIG });
}

/**
 * Types blocks, and compares what they print with what their page shows.
 *
 * @param others What stands for a text of the page: free ports, since other suites listen on its own, and the CA.
 */
async function typeBlocks(
  terminal: Terminal,
  blocks: readonly Block[],
  isMine: (block: Block) => boolean,
  others: Readonly<Record<string, string | number>> = {},
): Promise<void> {
  let printed: string | undefined;
  for (const block of blocks) {
    const { page, line, language, text } = block;
    const where = `${page}:${line}`;
    if (language === "text" && printed !== undefined) {
      assert.equal(missingLine(text, printed), undefined, `${where}: ${printed}`);
    }
    const typed = Object.entries(others).reduce(
      (said, [from, to]) => said.replaceAll(from, String(to)),
      text,
    );
    printed = isMine(block)
      ? await terminal.type(typed).catch((error: unknown) => {
          throw new Error(`${where}: ${error}`);
        })
      : undefined;
  }
}

/** Types what the page that moves a mesh has for the cluster, beside an istiod whose Secret is there. */
async function takeOverFromIstiod(
  { call }: ControlPlane,
  terminal: Terminal,
  folder: string,
): Promise<void> {
  const [fetchSecret, switchOff, ...others] = blocksOf(moving)
    .filter(({ mark }) => mark === inCluster)
    .map(({ text }) => text);
  assert(
    fetchSecret && switchOff && others.length === 0,
    "the page has two blocks for the cluster",
  );
  await terminal.type(createIstiod);
  await terminal.type(fetchSecret);
  await writeFile(join(folder, "rampart.toml"), rehearsal);
  const dryRun = await terminal.type(
    "KEK=$(rampart kek new k1) rampart authority import ca.yaml --dry-run",
  );
  assert.match(dryRun, /^Nothing was written/m);
  await joinTwoRoots(call, terminal, folder);
  await terminal.type(switchOff);
  const path = "/apis/apps/v1/namespaces/istio-system/deployments/istiod";
  const { spec } = await call("GET", path);
  assert.match(JSON.stringify(spec), /"name":"ENABLE_CA_SERVER","value":"false"/);
  await assert.rejects(
    call("GET", "/api/v1/namespaces/istio-system/secrets/istio-ca-secret"),
    /: 404 /,
  );
}

/** Types what the page of two roots has for a cluster, with a root beside that of istiod. */
async function joinTwoRoots(
  call: ControlPlane["call"],
  terminal: Terminal,
  folder: string,
): Promise<void> {
  const [fetchRoot, ...others] = blocksOf(joining)
    .filter(({ mark }) => mark === inCluster)
    .map(({ text }) => text);
  await terminal.type(`kubectl -n istio-system create configmap istio-ca-root-cert \\
  --from-file=root-cert.pem=ca-cert.pem --dry-run=client -o yaml | kubectl apply -f -
${fetchRoot}
cmp east.pem ca-cert.pem
openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out west.pem -subj /O=cluster.local
cat east.pem west.pem > roots.pem`);
  // kubectl refuses to restart a deployment twice in one second of the clock.
  for (const block of others) await terminal.type(`${block}\nsleep 1`);
  const { data, type } = await call("GET", "/api/v1/namespaces/istio-system/secrets/cacerts");
  const files = Object.entries(data as Readonly<Record<string, string>>).map(
    ([name, text]) => [name, Buffer.from(text, "base64").toString("utf8")] as const,
  );
  const read = async (name: string): Promise<string> => readFile(join(folder, name), "utf8");
  const certificate = await read("ca-cert.pem");
  assert.equal(type, "Opaque");
  assert.deepEqual(Object.fromEntries(files), {
    "ca-cert.pem": certificate,
    "ca-key.pem": await read("ca-key.pem"),
    "cert-chain.pem": certificate,
    "root-cert.pem": await read("roots.pem"),
  });
}

const createIstiod = `openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -keyout ca-key.pem -out ca-cert.pem \\
  -subj /O=cluster.local -addext "keyUsage=critical,keyCertSign,cRLSign"
kubectl -n istio-system create secret generic istio-ca-secret --type istio.io/ca-root --from-file=ca-cert.pem \\
  --from-file=ca-key.pem --from-file=root-cert.pem=ca-cert.pem
kubectl -n istio-system create deployment istiod --image=istiod`;

const rehearsal = `STORE_DIRECTORY = "store"
[[ISSUERS]]
issuer = "https://issuer.example.com"
`;

/** Says of the chart's deployment, once it is there, what the controllers of a real cluster say when its pod runs. */
async function rollOut({ call }: ControlPlane): Promise<void> {
  const path = "/apis/apps/v1/namespaces/istio-system/deployments/rampart";
  const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
  await until("the chart's deployment is not there", async () => {
    const deployment = await call("GET", path).catch(() => undefined);
    if (!deployment) return false;
    const { generation } = deployment["metadata"] as { readonly generation: number };
    const status = { ...counts, observedGeneration: generation };
    await call("PUT", `${path}/status`, { ...deployment, status });
    return true;
  });
}

/** Types what the other pages have for a cluster, beside the CA of the tutorial and an editor that changes nothing. */
async function typeOtherPages(
  { call }: ControlPlane,
  terminal: Terminal,
  folder: string,
  ca: ServedCa,
): Promise<void> {
  await writeFile(join(folder, "package.json"), '{ "scripts": { "rampart": "rampart" } }');
  await call("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  await terminal.type("export EDITOR=true ACCOUNT=account; rampart kek new k1 > ~/rampart-kek");
  const { port } = ca.server.plaintextAddress ?? { port: 0 };
  const others = { "https://ca.example.com": `http://127.0.0.1:${port}`, "prod-1": "Kubernetes" };
  const isOther = ({ mark, page }: Block): boolean =>
    mark === inCluster && page !== moving && page !== joining;
  await typeBlocks(terminal, clusterPages.flatMap(blocksOf), isOther, others);
}

/** Runs the CA as the pod would, with the configuration and the KEK of the cluster, which has no kubelet. */
async function serveAsPod({ call }: ControlPlane, folder: string): Promise<ServedCa> {
  const namespace = "/api/v1/namespaces/istio-system";
  const { spec } = await call("GET", "/apis/apps/v1/namespaces/istio-system/deployments/rampart");
  assert.match(
    JSON.stringify(spec),
    new RegExp(`"image":"registry.example.com/rampart:${version}"`),
  );
  const { data } = await call("GET", `${namespace}/secrets/rampart-kek`);
  const KEK = Buffer.from((data as { KEK: string }).KEK, "base64").toString("utf8");
  assert.equal(await readFile(join(folder, "kek"), "utf8"), KEK);
  const { items } = await call("GET", `${namespace}/configmaps`);
  const [text = ""] = (items as ConfigMap[]).flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  const { STORE_DIRECTORY, ISSUERS, ...values } = parseToml(text) as Json;
  assert.equal(STORE_DIRECTORY, "/var/lib/rampart/store");
  assert.match(JSON.stringify(ISSUERS), /"issuer":"https:\/\/kubernetes\.default\.svc"/);
  return serveCa({ ...values, KEK, ISSUERS, PLAINTEXT_LISTEN: "127.0.0.1:0" });
}

interface ConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** The row that types the page. It begins in a cluster that has nothing yet. */
export const tutorialRows: readonly Row<Scene>[] = [
  [
    `${page}, typed as it stands, and what ${moving} and ${joining} have for a cluster`,
    followTutorial,
  ],
];
