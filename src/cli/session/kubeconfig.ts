import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parse } from "yaml";
import * as z from "zod/mini";
import { inEnglish } from "../../foundation/english.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { type Fetch, FetchError, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import { KubernetesClient } from "../../kubernetes/client.ts";
import { Listing } from "../../kubernetes/list-pages.ts";
import { SmallFile, unlessMissing } from "../../program/files/small-file.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { ProxyServer } from "../../program/http/proxies.ts";
import { judgedBy } from "../../program/http/tunnel.ts";
import { type Credential, pluginSchema, runPlugin } from "./credential-plugin.ts";

/** A connection to a cluster, with the login that kubectl would use. */
export interface ClusterLogin {
  /** The name of the kubeconfig's context. */
  readonly name: string;
  /** The URL of the API server, without a slash at the end. */
  readonly server: string;
  /** PEM of the CA of the API server's certificate; `undefined` for the system's roots. */
  readonly ca: string | undefined;
  /** Sends a GET. @returns The body of a 200. @throws OperatorError for any other status or failure. */
  readonly read: (path: string) => Promise<string>;
  readonly client: KubernetesClient;
}

/** The longest kubeconfig: hundreds of contexts with their certificates fit. */
const maximumFileOctets = 16 * 1024 * 1024;

const text = z.optional(z.string());
const textOrNone = z._default(z.string(), "");

const clusterSchema = z.object({
  server: z.url({ protocol: /^https$/ }),
  "certificate-authority": text,
  "certificate-authority-data": text,
  "insecure-skip-tls-verify": z.optional(
    z.literal(false, { error: "must be false: the server would not be verified" }),
  ),
  "tls-server-name": text,
  "proxy-url": text,
  extensions: z.optional(z.array(z.object({ name: z.string(), extension: z.unknown() }))),
});
/** Refuses a key that client-go follows and Rampart does not: without it, the login would be another one. */
const unfollowed = z.optional(z.undefined({ error: "is not followed: use a login without it" }));

const userSchema = z.object({
  token: text,
  tokenFile: text,
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  exec: z.optional(pluginSchema),
  as: unfollowed,
  "as-uid": unfollowed,
  "as-groups": unfollowed,
  "as-user-extra": unfollowed,
  username: unfollowed,
  password: unfollowed,
  "auth-provider": unfollowed,
});
const contextSchema = z.object({ cluster: z.string(), user: textOrNone });

/** Entries stay `unknown` until they are chosen: other clusters and users may be malformed. */
const schema = z.object({
  "current-context": textOrNone,
  clusters: z._default(z.array(z.object({ name: z.string(), cluster: z.unknown() })), []),
  users: z._default(z.array(z.object({ name: z.string(), user: z.unknown() })), []),
  contexts: z._default(z.array(z.object({ name: z.string(), context: z.unknown() })), []),
});

type Kubeconfig = z.infer<typeof schema>;

/** The files that kubectl reads. An entry of an earlier file takes precedence. */
function usualFiles(environment: NodeJS.ProcessEnv): readonly string[] {
  const given = (environment["KUBECONFIG"] ?? "").split(":").filter((path) => path !== "");
  return given.length > 0 ? given : [join(homeOf(environment), ".kube", "config")];
}

/** Finds the home folder. @throws OperatorError if neither HOME nor the system's list of users has it. */
function homeOf({ HOME }: NodeJS.ProcessEnv): string {
  try {
    return HOME || homedir();
  } catch {
    throw new OperatorError("there is no HOME with a kubeconfig: name the file in KUBECONFIG");
  }
}

interface KubeconfigFile {
  readonly path: string;
  readonly content: Kubeconfig;
}

/**
 * Reads the files in order. Like client-go, it skips a missing one if there is another.
 * @throws OperatorError for a malformed file, and if none exists.
 */
async function readFiles(paths: readonly string[]): Promise<readonly KubeconfigFile[]> {
  const files: KubeconfigFile[] = [];
  for (const path of paths) {
    const reading = readFileText(path);
    const text = await (paths.length > 1 ? unlessMissing(reading) : reading);
    if (text === undefined) continue;
    files.push({ path, content: parseAs(schema, parseYaml(text, path) ?? {}, path) });
  }
  if (files.length === 0) throw new OperatorError(`none of ${paths.join(", ")} exists`);
  return files;
}

/** Finds an entry in the first file that has it, with the path of that file. */
function entryOf<Entry extends { readonly name: string }>(
  files: readonly KubeconfigFile[],
  entriesOf: (file: Kubeconfig) => readonly Entry[],
  name: string,
): { readonly path: string; readonly entry: Entry } | undefined {
  for (const { path, content } of files) {
    const entry = entriesOf(content).find((each) => each.name === name);
    if (entry) return { path, entry };
  }
  return undefined;
}

/**
 * Reads the cluster of a context as client-go does, and runs the credential plugin of its user, if there is one. The
 * credential is read once, and not renewed.
 * @param chosenPath By default the files that kubectl uses, as one.
 * @param contextName By default the current one of the first file that has one.
 * @throws OperatorError for a missing or malformed file, a failed plugin, and settings that would not verify TLS.
 */
export async function readKubeconfig(
  chosenPath: string | undefined,
  contextName: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<ClusterLogin> {
  const paths = chosenPath === undefined ? usualFiles(environment) : [chosenPath];
  const files = await readFiles(paths);
  const all = files.map(({ path }) => path).join(":");
  const current = files.map(({ content }) => content["current-context"]).find(Boolean);
  const name = contextName ?? current ?? "";
  const context = entryOf(files, ({ contexts }) => contexts, name);
  if (!context) throw new OperatorError(`${all} has no context ${JSON.stringify(name)}`);
  const chosen = parseAs(contextSchema, context.entry.context, context.path);
  const found = entryOf(files, ({ clusters }) => clusters, chosen.cluster);
  if (!found) throw new OperatorError(`${all} has no cluster ${JSON.stringify(chosen.cluster)}`);
  const cluster = parseAs(clusterSchema, found.entry.cluster, found.path);
  const ca = await textOf(
    cluster["certificate-authority-data"],
    cluster["certificate-authority"],
    folderOf(found.path),
  );
  const user = entryOf(files, ({ users }) => users, chosen.user);
  const path = user?.path ?? all;
  const login = parseAs(userSchema, user?.entry.user ?? {}, path);
  const {
    token = "",
    cert,
    key,
  } = login.exec
    ? await runPlugin(login.exec, folderOf(path), { ...cluster, ca }, environment)
    : await credentialOf(login, folderOf(path));
  const { "tls-server-name": serverName, "proxy-url": proxyUrl } = cluster;
  const proxy = proxyUrl ? ProxyServer.parse(proxyUrl, `${found.path}: proxy-url`) : undefined;
  const tls = {
    ...(ca !== undefined && { ca }),
    ...(cert && key && { cert, key }),
    ...(serverName && judgedBy(serverName)),
  };
  const fetch = NodeFetch.with(tls, "anywhere", proxy && (() => proxy));
  const server = cluster.server.replace(/\/+$/, "");
  return {
    name,
    server,
    ca,
    read: (at) => readFrom(`${server}${at}`, fetch, token),
    client: KubernetesClient.create({ server, credential: () => token }, fetch),
  };
}

const folderOf = (path: string): string => dirname(resolve(path));

/** Parses a part of a kubeconfig. Its errors never quote a value, because zod's messages do not. */
function parseAs<T>(shape: z.ZodMiniType<T>, value: unknown, path: string): T {
  const parsed = shape.safeParse(value, inEnglish);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = [path, issue?.path.join(".")].filter((part) => part !== "").join(": ");
  throw new OperatorError(`${place}: ${issue?.message}`);
}

/**
 * Reads the credential of a user. A file takes precedence over a token in the text, but not over certificates and keys
 * in it.
 */
async function credentialOf(
  login: z.infer<typeof userSchema>,
  folder: string,
): Promise<Credential> {
  const inFile = await textOf(undefined, login.tokenFile, folder);
  return {
    token: inFile?.trim() ?? login.token,
    cert: await textOf(login["client-certificate-data"], login["client-certificate"], folder),
    key: await textOf(login["client-key-data"], login["client-key"], folder),
  };
}

async function textOf(
  data: string | undefined,
  file: string | undefined,
  folder: string,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  return file === undefined ? undefined : readFileText(resolve(folder, file));
}

/**
 * Reads a small text file, which may be a pipe.
 * @throws OperatorError if it cannot be read or is too long.
 */
export function readFileText(path: string): Promise<string> {
  return SmallFile.read(path, maximumFileOctets, { mayBePipe: true });
}

/** Parses YAML. The error leaves out the parser's message, which quotes the file and its credentials. */
function parseYaml(text: string, path: string): unknown {
  try {
    return parse(text);
  } catch {
    throw new OperatorError(`${path}: is not YAML`);
  }
}

/** Sends a GET. @throws OperatorError for every failure, also for a key or a token that cannot be sent. */
async function readFrom(url: string, fetch: Fetch, token: string): Promise<string> {
  const headers = {
    accept: "application/json, application/jwk-set+json",
    ...(token && { authorization: `Bearer ${token}` }),
  };
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(10_000) });
    const text = await ResponseBody.readText(response, Listing.maximumPageOctets);
    if (response.status === 200) return text;
    throw new FetchError(`answered with status ${response.status}`);
  } catch (error) {
    throw new OperatorError(`${url}: ${toFetchError(error, "did not answer").message}`);
  }
}
