import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type PrebuiltProgram, prebuilt } from "../../prebuilt.ts";
import { fromGoProxy, type Software } from "../../software.ts";

export interface ControlPlanePrograms {
  readonly apiServer: string;
  readonly etcd: string;
  /** Whether pod certificates and ClusterTrustBundles are `v1beta1`. */
  readonly isBeta: boolean;
}

export interface KubernetesVersion {
  readonly version: string;
  readonly isBeta: boolean;
  readonly variable: string;
  readonly apiServer: PrebuiltProgram;
}

export const versions: readonly KubernetesVersion[] = [
  {
    version: "1.36.3",
    isBeta: true,
    variable: "RAMPART_KUBE_APISERVER",
    apiServer: {
      name: "kube-apiserver",
      sha256: "b05d1bd076c504fda2a0b091bf4ee19b386ae1ecc74ce9daab9b9a71d722d281",
    },
  },
  {
    version: "1.37.2",
    isBeta: false,
    variable: "RAMPART_KUBE_APISERVER_1_37",
    apiServer: {
      name: "kube-apiserver-1.37",
      sha256: "f38caa26c515c369c8f71b759c9c6e5731406a517449ef0769e103fe4dc2726b",
    },
  },
];

const folder = join(import.meta.dirname, "../../../../.interop/kubernetes");
const run = promisify(execFile);

export const findHelm = (): Promise<Software> => fromGoProxy("helm.sh/helm/v3/cmd/helm@v3.22.0");

const prebuiltEtcd = {
  name: "etcd",
  sha256: "5b30c84f3317dc217fce44c00d98d3d31e28b4db7d7ef103b82ab9acad9ab623",
};

/**
 * Finds a real kube-apiserver and etcd. Variables name them, RAMPART_ETCD the latter. Otherwise, with
 * RAMPART_BUILD_KUBERNETES, this builds them once from their Go modules, which keeps one core busy for half an
 * hour. Otherwise it takes the prebuilt ones.
 *
 * Kubernetes' module replaces its staging modules by folders, which `go install` refuses. A generated
 * module replaces them by their published versions.
 *
 * @returns The reason if one of them is missing.
 */
export async function controlPlanePrograms({
  version,
  isBeta,
  variable,
  apiServer,
}: KubernetesVersion): Promise<ControlPlanePrograms | string> {
  const server = await found(process.env[variable], apiServer, () =>
    built(version, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
  );
  const { RAMPART_ETCD } = process.env;
  const etcd = await found(RAMPART_ETCD, prebuiltEtcd, () =>
    built(version, "etcd", "go.etcd.io/etcd/server/v3"),
  );
  if ("missing" in server) return server.missing;
  if ("missing" in etcd) return etcd.missing;
  return { apiServer: server.program, etcd: etcd.program, isBeta };
}

async function found(
  named: string | undefined,
  program: PrebuiltProgram,
  build: () => Promise<string>,
): Promise<Software> {
  if (named !== undefined) return { program: named };
  const { RAMPART_BUILD_KUBERNETES } = process.env;
  return RAMPART_BUILD_KUBERNETES ? { program: await build() } : prebuilt(program);
}

async function built(version: string, name: string, path: string): Promise<string> {
  const cwd = join(folder, version);
  const program = join(cwd, name);
  if (existsSync(program)) return program;
  await mkdir(cwd, { recursive: true });
  await writeFile(join(cwd, "go.mod"), await moduleFile(version));
  const options = { cwd, env: { ...process.env, GOFLAGS: "-mod=mod" } };
  console.log(`building ${name}, once`);
  await run("go", ["build", "-trimpath", "-ldflags", "-s -w", "-o", program, path], options);
  return program;
}

async function moduleFile(version: string): Promise<string> {
  const { stdout } = await run("go", ["mod", "download", "-json", `k8s.io/kubernetes@v${version}`]);
  const { Dir } = JSON.parse(stdout) as { Dir: string };
  const original = await readFile(join(Dir, "go.mod"), "utf8");
  const staged = [...original.matchAll(/^\s*(k8s\.io\/[\w.-]+)\s+=>\s+\.\/staging/gm)];
  const replacements = staged.map(([, name]) => `\t${name} => ${name} v0.${version.slice(2)}`);
  const [, etcd = ""] = /go\.etcd\.io\/etcd\/server\/v3 (\S+)/.exec(original) ?? [];
  const [, go = ""] = /^go (.*)$/m.exec(original) ?? [];
  return [
    "module rampart.interop/kubernetes",
    "",
    `go ${go}`,
    "",
    "require (",
    `\tgo.etcd.io/etcd/server/v3 ${etcd}`,
    `\tk8s.io/kubernetes v${version}`,
    ")",
    "",
    "replace (",
    ...replacements,
    ")",
    "",
  ].join("\n");
}
