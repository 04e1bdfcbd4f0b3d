import assert from "node:assert/strict";
import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { parse as parseToml } from "smol-toml";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { blocksUnder } from "../page-blocks.ts";
import { missingLine } from "../pages/expectation.ts";
import { environmentIn } from "../pages/scenes.ts";
import { openTerminal, type Terminal } from "../pages/terminal.ts";
import type { ControlPlane, Json } from "./control-plane.ts";
import { writeKubeconfig } from "./kubeconfig.ts";

const page = "docs/tutorials/serve-on-kubernetes.md";

/** The name of the row. */
export const tutorial: string = `${page}, typed as it stands, with kubectl and helm`;

/** Types the page into a shell whose folder has the chart. */
export async function followTutorial(
  plane: ControlPlane,
  folder: string,
  helm: string,
): Promise<void> {
  const terminal = await terminalOf(plane, folder, helm);
  // The controllers of a real cluster make this account.
  await plane.call("POST", "/api/v1/namespaces/default/serviceaccounts", {
    metadata: { name: "default" },
  });
  let ca: ServedCa | undefined;
  try {
    await typeSection(terminal, "2. Make the KEK");
    await typeSection(terminal, "3. Install the chart");
    ca = await serveAsPod(plane, folder);
    const ports = { "15012": ca.port, "15014": ca.monitoringPort };
    await typeSection(terminal, "4. See that it signs", ports);
    await typeSection(terminal, "5. Ask for a certificate", ports);
  } finally {
    await ca?.end();
    await terminal.end();
  }
}

async function terminalOf(plane: ControlPlane, folder: string, helm: string): Promise<Terminal> {
  const KUBECONFIG = join(folder, "kubeconfig");
  await writeKubeconfig(plane, KUBECONFIG);
  const environment = await environmentIn(folder);
  await symlink(helm, join(folder, ".home/bin/helm"));
  await symlink(join(import.meta.dirname, "../../../deploy"), join(folder, "deploy"));
  return openTerminal(folder, { ...environment, KUBECONFIG });
}

/**
 * Types the unmarked blocks under a heading, and compares what they print with what the page shows.
 *
 * @param ports The free ports that stand for those of the page, which other suites listen on.
 */
async function typeSection(
  terminal: Terminal,
  heading: string,
  ports: Readonly<Record<string, number>> = {},
): Promise<void> {
  let printed: string | undefined;
  for (const { language, mark, text } of await blocksUnder(page, heading)) {
    if (language === "text" && printed !== undefined) {
      assert.equal(missingLine(text, printed), undefined, printed);
    }
    const isTyped = language === "sh" && mark === "";
    printed = isTyped ? await terminal.type(withPorts(text, ports)) : undefined;
  }
}

const withPorts = (text: string, ports: Readonly<Record<string, number>>): string =>
  Object.entries(ports).reduce((said, [from, to]) => said.replaceAll(from, String(to)), text);

/** Runs the CA as the pod would, with the configuration and the KEK of the cluster, which has no kubelet. */
async function serveAsPod({ call }: ControlPlane, folder: string): Promise<ServedCa> {
  const namespace = "/api/v1/namespaces/istio-system";
  const { spec } = await call("GET", "/apis/apps/v1/namespaces/istio-system/deployments/rampart");
  assert.match(JSON.stringify(spec), /"image":"registry\.example\.com\/rampart:0\.1\.0"/);
  const { data } = await call("GET", `${namespace}/secrets/rampart-kek`);
  const KEK = Buffer.from((data as { KEK: string }).KEK, "base64").toString("utf8");
  assert.equal(await readFile(join(folder, "kek"), "utf8"), KEK);
  const { items } = await call("GET", `${namespace}/configmaps`);
  const [text = ""] = (items as ConfigMap[]).flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  const { STORE_DIRECTORY, ISSUERS, ...values } = parseToml(text) as Json;
  assert.equal(STORE_DIRECTORY, "/var/lib/rampart/store");
  const printed = await readFile(join(folder, "issuers.toml"), "utf8");
  const { ISSUERS: enrolled }: Json = parseToml(printed);
  assert.deepEqual(issuersIn(ISSUERS), issuersIn(enrolled));
  return serveCa({ ...values, KEK, ISSUERS: enrolled });
}

const issuersIn = (tables: unknown): readonly string[] =>
  (tables as { readonly issuer: string }[]).map(({ issuer }) => issuer);

interface ConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}
