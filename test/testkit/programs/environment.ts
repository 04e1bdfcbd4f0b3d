import { join } from "node:path";

/** What tests, and the programs that they start, may know of the shell that started them. */
const ofTheShell: readonly string[] = ["PATH", "HOME", "TMPDIR", "CI", "RAMPART_CI"];

/** What the interop suites need besides, to install and build the software of other projects. */
const forBuilds =
  /^(npm_config|GO|PIP|CARGO|RUSTUP|PYENV|SSL_CERT|https?_proxy|no_proxy)|_CA_(BUNDLE|CERTS)$|^RAMPART_(SOFTWARE|ZTUNNEL(_AWS_LC)?|CHROMIUM|KUBE_APISERVER(_1_37)?|ETCD|BUILD_KUBERNETES)$/i;

/** The environment of every test, and of the programs that it starts. */
const testVariables: Readonly<Record<string, string>> = {
  // Else wrangler connects to Cloudflare at its start, and prints that it failed.
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_SEND_METRICS: "false",
};

/** What Node has compiled, for programs. Tests load most modules once: to keep those costs more than to compile them. */
const compiled = join(import.meta.dirname, "../../../node_modules/.cache/compiled");

/** Whether a test may see a variable of this name. */
export const isOfTests = (name: string): boolean =>
  ofTheShell.includes(name) || Object.hasOwn(testVariables, name);

/** The environment of a program: what a test may know of the shell, and these variables. */
export function programEnvironment(variables: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const known = Object.entries(process.env).filter(
    ([name]) => isOfTests(name) || forBuilds.test(name),
  );
  const cache = { NODE_COMPILE_CACHE: compiled };
  return { ...Object.fromEntries(known), ...testVariables, ...cache, ...variables };
}

/** Takes from `rampart` what builds of other projects need of the shell: roots and proxies of this machine among them. */
export const withoutBuilds = (variables: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(
    Object.keys(process.env)
      .filter((name) => forBuilds.test(name))
      .map((name) => [name, undefined]),
  ),
  ...variables,
});

/** Takes from this process, and so from all that it starts, what a test must not see of the shell. */
export function leaveShell(purpose: "tests" | "interop"): void {
  for (const name of Object.keys(process.env)) {
    const isKept = isOfTests(name) || (purpose === "interop" && forBuilds.test(name));
    if (!isKept) Reflect.deleteProperty(process.env, name);
  }
  Object.assign(process.env, testVariables);
}
