import { execFile } from "node:child_process";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import * as z from "zod/mini";
import { isSecretKey } from "../../config/configuration.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { type Fetch, FetchError, readText, toFetchError } from "../../foundation/fetch.ts";
import { inEnglish } from "../../foundation/text.ts";
import { createKubernetesClient, type KubernetesClient } from "../../kubernetes/client.ts";
import { maximumPageOctets } from "../../kubernetes/list-pages.ts";
import { readSmallFile } from "../../program/files/small-file.ts";
import { fetchWith } from "../../program/http/http-client.ts";

/** A cluster, reached as kubectl would. */
export interface ClusterLogin {
  /** The name of its context. */
  readonly name: string;
  /** No slash at the end. */
  readonly server: string;
  /** PEM of the CA of its certificate; `undefined` for the system's roots. */
  readonly ca: string | undefined;
  /** Sends a GET. @returns The body of a 200. @throws OperatorError */
  readonly read: (path: string) => Promise<string>;
  readonly client: KubernetesClient;
}

/** Room for hundreds of contexts with their certificates. */
const maximumFileOctets = 16 * 1024 * 1024;

const text = z.optional(z.string());
const textOrNone = z._default(z.string(), "");

const clusterForm = z.object({
  server: z.url({ protocol: /^https$/ }),
  "certificate-authority": text,
  "certificate-authority-data": text,
  "insecure-skip-tls-verify": z.optional(z.literal(false)),
});
const pluginForm = z.object({
  apiVersion: z.string(),
  command: z.string(),
  args: z.nullish(z.array(z.string())),
  env: z.nullish(z.array(z.object({ name: z.string(), value: z.string() }))),
});
const userForm = z.object({
  token: text,
  tokenFile: text,
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  exec: z.optional(pluginForm),
});
const contextForm = z.object({ cluster: z.string(), user: textOrNone });

/** Entries stay `unknown` until they are chosen: other clusters and users may be malformed. */
const form = z.object({
  "current-context": textOrNone,
  clusters: z._default(z.array(z.object({ name: z.string(), cluster: z.unknown() })), []),
  users: z._default(z.array(z.object({ name: z.string(), user: z.unknown() })), []),
  contexts: z._default(z.array(z.object({ name: z.string(), context: z.unknown() })), []),
});

/** The path that kubectl uses. */
function defaultKubeconfig({ KUBECONFIG = "" }: NodeJS.ProcessEnv): string {
  const [first] = KUBECONFIG.split(":");
  return first || join(homedir(), ".kube", "config");
}

/**
 * The cluster of a context.
 *
 * @param chosenPath By default the file that kubectl uses.
 * @param contextName By default the current one of that file.
 * @throws OperatorError for a missing or malformed file, and for settings that would not verify TLS.
 */
export async function readKubeconfig(
  chosenPath: string | undefined,
  contextName: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<ClusterLogin> {
  const path = chosenPath ?? defaultKubeconfig(environment);
  const file = parseAs(form, parseYaml(await readFileText(path), path), path);
  const name = contextName ?? file["current-context"];
  const context = file.contexts.find((each) => each.name === name);
  if (!context) throw new OperatorError(`${path} has no context ${JSON.stringify(name)}`);
  const chosen = parseAs(contextForm, context.context, path);
  const entry = file.clusters.find((each) => each.name === chosen.cluster);
  if (!entry) throw new OperatorError(`${path} has no cluster ${JSON.stringify(chosen.cluster)}`);
  const cluster = parseAs(clusterForm, entry.cluster, path);
  const user = file.users.find((each) => each.name === chosen.user)?.user;
  const octets: TextOf = (data, at) => textOf(data, at, dirname(resolve(path)));
  const ca = await octets(cluster["certificate-authority-data"], cluster["certificate-authority"]);
  const server = cluster.server.replace(/\/+$/, "");
  const login = parseAs(userForm, user ?? {}, path);
  const { token = "", cert, key } = await credentialOf(login, octets, environment);
  const fetch = fetchWith({ ...(ca !== undefined && { ca }), ...(cert && key && { cert, key }) });
  return {
    name,
    server,
    ca,
    read: (at) => readFrom(`${server}${at}`, fetch, token),
    client: createKubernetesClient({ server, credential: () => token }, fetch),
  };
}

/** zod's messages do not quote the value. */
function parseAs<T>(shape: z.ZodMiniType<T>, value: unknown, path: string): T {
  const parsed = shape.safeParse(value, inEnglish);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = [path, issue?.path.join(".")].filter((part) => part !== "").join(": ");
  throw new OperatorError(`${place}: ${issue?.message}`);
}

type TextOf = (data: string | undefined, file: string | undefined) => Promise<string | undefined>;

interface Credential {
  readonly token: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

async function credentialOf(
  login: z.infer<typeof userForm>,
  octets: TextOf,
  environment: NodeJS.ProcessEnv,
): Promise<Credential> {
  if (login.exec) return runPlugin(login.exec, environment);
  const token = login.token ?? (await octets(undefined, login.tokenFile))?.trim();
  return {
    token,
    cert: await octets(login["client-certificate-data"], login["client-certificate"]),
    key: await octets(login["client-key-data"], login["client-key"]),
  };
}

const pluginAnswer = z.object({
  kind: z.literal("ExecCredential"),
  status: z.object({ token: text, clientCertificateData: text, clientKeyData: text }),
});

/** Runs a credential plugin of the kubeconfig, as client-go does. */
async function runPlugin(
  { command, args, env, apiVersion }: z.infer<typeof pluginForm>,
  environment: NodeJS.ProcessEnv,
): Promise<Credential> {
  const info = { apiVersion, kind: "ExecCredential", spec: { interactive: false } };
  const variables = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
  try {
    const { stdout } = await promisify(execFile)(command, args ?? [], {
      env: childEnvironment(environment, {
        ...variables,
        KUBERNETES_EXEC_INFO: JSON.stringify(info),
      }),
      timeout: 30_000,
    });
    const { status } = pluginAnswer.parse(JSON.parse(stdout));
    return { token: status.token, cert: status.clientCertificateData, key: status.clientKeyData };
  } catch {
    // The output may be the credential.
    throw new OperatorError(`the credential plugin ${JSON.stringify(command)} gave no credential`);
  }
}

/**
 * The environment for another program, such as a credential plugin of a kubeconfig, or wrangler: this
 * process's own, without the secrets of the CA.
 */
export function childEnvironment(
  own: NodeJS.ProcessEnv,
  more: Readonly<Record<string, string>> = {},
): NodeJS.ProcessEnv {
  const entries = Object.entries(own).filter(
    ([name]) => name !== "RAMPART_PASSPHRASE" && !isSecretKey(name),
  );
  return { ...Object.fromEntries(entries), ...more };
}

async function textOf(
  data: string | undefined,
  file: string | undefined,
  folder: string,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  return file === undefined ? undefined : readFileText(resolve(folder, file));
}

/** @throws OperatorError */
export function readFileText(path: string): Promise<string> {
  return readSmallFile(path, maximumFileOctets, { mayBePipe: true });
}

/** Drops the parser's message, which quotes the file and its credentials. */
function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text);
  } catch {
    throw new OperatorError(`${path}: is not YAML`);
  }
}

/** @throws OperatorError for every failure, also for a key or a token that cannot be sent. */
async function readFrom(url: string, fetch: Fetch, token: string): Promise<string> {
  const headers = {
    accept: "application/json, application/jwk-set+json",
    ...(token && { authorization: `Bearer ${token}` }),
  };
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) });
    const text = await readText(response, maximumPageOctets);
    if (response.status === 200) return text;
    throw new FetchError(`answered with status ${response.status}`);
  } catch (error) {
    throw new OperatorError(`${url}: ${toFetchError(error, "did not answer").message}`);
  }
}
