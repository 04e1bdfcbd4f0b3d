import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/** The programs of a control plane. */
export interface ControlPlanePrograms {
  readonly apiServer: string;
  readonly etcd: string;
}

export const version = "1.34.1";
const folder = join(import.meta.dirname, "../../../.interop/kubernetes");
const run = promisify(execFile);

/**
 * Finds a real kube-apiserver and etcd. RAMPART_KUBE_APISERVER and RAMPART_ETCD name them. If
 * RAMPART_BUILD_KUBERNETES is set, this builds them from their Go modules, once; that keeps one core
 * busy for half an hour.
 *
 * Kubernetes' module replaces its staging modules by folders, which `go install` refuses. A generated
 * module replaces them by their published versions.
 *
 * @returns `undefined` if they are neither named, nor built, nor to be built.
 */
export async function controlPlanePrograms(): Promise<ControlPlanePrograms | undefined> {
  const { RAMPART_KUBE_APISERVER, RAMPART_ETCD, RAMPART_BUILD_KUBERNETES } = process.env;
  const hasApiServer = RAMPART_KUBE_APISERVER ?? existsSync(join(folder, "kube-apiserver"));
  const hasEtcd = RAMPART_ETCD ?? existsSync(join(folder, "etcd"));
  if (!RAMPART_BUILD_KUBERNETES && !(hasApiServer && hasEtcd)) return undefined;
  return {
    apiServer:
      RAMPART_KUBE_APISERVER ??
      (await built("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")),
    etcd: RAMPART_ETCD ?? (await built("etcd", "go.etcd.io/etcd/server/v3")),
  };
}

async function built(name: string, path: string): Promise<string> {
  const program = join(folder, name);
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "go.mod"), await moduleFile());
  const options = { cwd: folder, env: { ...process.env, GOFLAGS: "-mod=mod" } };
  console.log(`building ${name}, once`);
  await run("go", ["build", "-trimpath", "-ldflags", "-s -w", "-o", program, path], options);
  return program;
}

async function moduleFile(): Promise<string> {
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
