import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import * as z from "zod/mini";
import { Secrets } from "../../config/secrets.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { parseJson } from "../../foundation/json.ts";
import { errorCode } from "../../program/files/small-file.ts";

/** How a login authenticates: by a token, or a certificate and its key (PEM). */
export interface Credential {
  readonly token: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** The schema of the `exec` of a kubeconfig's user. */
export const pluginSchema = z.object({
  apiVersion: z.string(),
  command: z.string(),
  args: z.nullish(z.array(z.string())),
  env: z.nullish(z.array(z.object({ name: z.string(), value: z.string() }))),
  installHint: z.optional(z.string()),
  provideClusterInfo: z.optional(z.boolean()),
  interactiveMode: z.optional(
    z.enum(["Never", "IfAvailable"], { error: "must be Never or IfAvailable" }),
  ),
});

/** The cluster, which a plugin gets if it asks by `provideClusterInfo`. */
interface PluginCluster {
  readonly server: string;
  readonly ca: string | undefined;
  readonly "tls-server-name"?: string | undefined;
  readonly "proxy-url"?: string | undefined;
  readonly extensions?:
    | readonly { readonly name: string; readonly extension: unknown }[]
    | undefined;
}

const text = z.optional(z.string());
const pluginAnswer = z.object({
  kind: z.literal("ExecCredential"),
  status: z.object({ token: text, clientCertificateData: text, clientKeyData: text }),
});

/**
 * Runs a credential plugin of a kubeconfig as client-go does, for at most 30 seconds. What it writes on standard error
 * is shown.
 * @param folder The folder of the kubeconfig, to which a command with a slash is relative.
 * @throws OperatorError that quotes none of its output, which may be the credential.
 */
export async function runPlugin(
  { command, args, env, apiVersion, installHint, provideClusterInfo }: z.infer<typeof pluginSchema>,
  folder: string,
  cluster: PluginCluster,
  environment: NodeJS.ProcessEnv,
): Promise<Credential> {
  const spec = { ...(provideClusterInfo && { cluster: infoOf(cluster) }), interactive: false };
  const variables = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
  const program = command.includes("/") ? resolve(folder, command) : command;
  try {
    const running = promisify(execFile)(program, args ?? [], {
      env: childEnvironment(environment, {
        ...variables,
        KUBERNETES_EXEC_INFO: JSON.stringify({ apiVersion, kind: "ExecCredential", spec }),
      }),
      timeout: 30_000,
    });
    running.child.stderr?.pipe(process.stderr, { end: false });
    const { status } = pluginAnswer.parse(parseJson((await running).stdout));
    return { token: status.token, cert: status.clientCertificateData, key: status.clientKeyData };
  } catch (error) {
    const what = `the credential plugin ${JSON.stringify(command)}`;
    if (errorCode(error) !== "ENOENT") throw new OperatorError(`${what} gave no credential`);
    throw new OperatorError(
      `${what} is not installed${installHint ? `: ${installHint.trim()}` : ""}`,
    );
  }
}

const infoOf = ({ ca, extensions, ...cluster }: PluginCluster) => ({
  server: cluster.server,
  "tls-server-name": cluster["tls-server-name"],
  "proxy-url": cluster["proxy-url"],
  "certificate-authority-data": ca && Buffer.from(ca).toString("base64"),
  config: extensions?.find(({ name }) => name === "client.authentication.k8s.io/exec")?.extension,
});

/**
 * Makes the environment of another program, such as a credential plugin or wrangler: that of this process without the
 * secrets of the CA, overridden by `more`.
 */
export function childEnvironment(
  own: NodeJS.ProcessEnv,
  more: Readonly<Record<string, string>> = {},
): NodeJS.ProcessEnv {
  const entries = Object.entries(own).filter(
    ([name]) => name !== "RAMPART_PASSPHRASE" && !Secrets.has(name),
  );
  return { ...Object.fromEntries(entries), ...more };
}
