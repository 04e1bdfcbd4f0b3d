import { join } from "node:path";

/** What tests, and the programs that they start, may know of the shell that started them. */
const ofTheShell: readonly string[] = ["PATH", "HOME", "TMPDIR", "CI", "RAMPART_CI"];

/** Variables for every test and the programs that it starts, which share what Node has compiled. */
export const compileCache: Readonly<Record<string, string>> = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, "../../../node_modules/.cache/compiled"),
};

/** The environment of every test. */
export const testVariables: Readonly<Record<string, string>> = {
  ...compileCache,
  // Else wrangler connects to Cloudflare at its start, and prints that it failed.
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
};

/** What the interop suites need besides, to install and build the software of other projects. */
export const forBuilds =
  /^(npm_config|GO|PIP|CARGO|RUSTUP|PYENV|SSL_CERT|https?_proxy|no_proxy)|_CA_(BUNDLE|CERTS)$|^RAMPART_(SOFTWARE|CHROMIUM|KUBE_APISERVER|ETCD|BUILD_KUBERNETES)$/i;

/**
 * Takes from this process, and so from all that it starts, what a test must not see of the shell.
 *
 * @param besides Further names that it may see.
 */
export function leaveShell(besides?: RegExp): void {
  for (const name of Object.keys(process.env)) {
    const isKept = ofTheShell.includes(name) || besides?.test(name);
    if (!isKept) Reflect.deleteProperty(process.env, name);
  }
  Object.assign(process.env, testVariables);
}

/** Whether a test may see a variable of this name. */
export const isOfTests = (name: string): boolean =>
  ofTheShell.includes(name) || Object.hasOwn(testVariables, name);
