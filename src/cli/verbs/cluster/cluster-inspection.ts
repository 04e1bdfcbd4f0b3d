import { type Command, Option } from "commander";
import { clientOf } from "../../../config/cluster-access.ts";
import type { Configuration } from "../../../config/configuration.ts";
import type { IssuerTable } from "../../../config/issuer-table.ts";
import { type ClusterRoots, HeldRoots } from "../../../delivery/root-config-map.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { FetchError, ResponseBody } from "../../../foundation/fetch.ts";
import type { SendRequest } from "../../../kubernetes/client.ts";
import { ConfigMapName } from "../../../kubernetes/names.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { type ClusterLogin, readKubeconfig } from "../../session/kubeconfig.ts";
import { printable } from "../../terminal/text.ts";
import { issuerIn } from "./cluster-enrol.ts";

/** The roots in a cluster, as this terminal can see them. */
export interface ClusterInspection {
  readonly cluster: string;
  /** The issuer; `undefined` for a login that belongs to none of `ISSUERS`. */
  readonly issuer: string | undefined;
  /** The roots, or a sentence why the cluster cannot be inspected. */
  readonly roots: ClusterRoots<HeldRoots> | string;
  /** The CRLs, or why they cannot be inspected; absent unless they were asked for, and if `roots` is a sentence. */
  readonly crls?: ClusterRoots<HeldRoots> | string;
}

const concurrentClusters = 8;
const timeoutMilliseconds = 60_000;
const maximumDistinctCharacters = 16 * 1024 * 1024;

/**
 * Lists the trust bundles in each cluster of `ISSUERS`, eight clusters at once, each for at most a minute. A cluster is
 * read with the login of the kubeconfig that fits it, or else with the credential that its table takes from the
 * environment. A cluster that cannot be read has a sentence in place of its roots, and each login that fits no table is
 * listed with the reason. An issuer with `subjects` has no cluster.
 * @throws OperatorError for a login that cannot be read.
 */
export async function inspectClusters(
  configuration: Configuration,
  { withCrls = false, ...choice }: LoginChoice & { readonly withCrls?: boolean },
  environment: NodeJS.ProcessEnv,
): Promise<ClusterInspection[]> {
  const logins = await identifyLogins(choice, environment);
  const inspect = (table: IssuerTable) => inspectCluster(table, logins, configuration, withCrls);
  const issuers = configuration.issuers.filter(({ subjects }) => !subjects);
  const inspections: ClusterInspection[] = [];
  for (let i = 0; i < issuers.length; i += concurrentClusters) {
    const some = issuers.slice(i, i + concurrentClusters);
    inspections.push(...(await Promise.all(some.map(inspect))));
  }
  const asked = issuers.flatMap((table) => loginFor(table, logins) ?? []);
  const others = logins.filter(({ server }) => !asked.some((each) => each.server === server));
  return [...inspections, ...others.map((login) => unusedLogin(login, asked))];
}

const loginFor = (
  table: IssuerTable,
  logins: readonly IdentifiedLogin[],
): IdentifiedLogin | undefined => logins.find((each) => isOf(each, table));

const isOf = ({ issuer, server }: IdentifiedLogin, table: IssuerTable): boolean =>
  issuer === undefined ? server === table.kubernetes?.server : issuer === table.issuer;

/** The result for a login that is not used: two clusters may show one issuer, and only one is inspected. */
function unusedLogin(login: IdentifiedLogin, asked: readonly IdentifiedLogin[]): ClusterInspection {
  const { name, issuer, fault } = login;
  const twin = asked.find((each) => each.issuer === issuer);
  const whose = twin ? `also that of context ${twin.name}` : "not among ISSUERS";
  const why = fault ?? `its issuer "${issuer}" is ${whose}`;
  return { cluster: printable(`context ${name}`), issuer: undefined, roots: printable(why) };
}

async function inspectCluster(
  table: IssuerTable,
  logins: readonly IdentifiedLogin[],
  configuration: Configuration,
  withCrls: boolean,
): Promise<ClusterInspection> {
  const { cluster, issuer, kubernetes } = table;
  const login = loginFor(table, logins);
  const send = login ? loginSender(login) : accessSender(table, configuration);
  if (typeof send === "string") return { cluster, issuer, roots: send };
  const bounded = inTime(send);
  const roots = await contentOrFault(bounded, kubernetes?.config_map ?? ConfigMapName.ofRoots);
  if (!withCrls || typeof roots === "string") return { cluster, issuer, roots };
  return { cluster, issuer, roots, crls: await contentOrFault(bounded, ConfigMapName.ofCrls) };
}

async function contentOrFault(
  send: SendRequest,
  configMap: string,
): Promise<ClusterRoots<HeldRoots> | string> {
  try {
    return await HeldRoots.list(send, configMap, keeping());
  } catch (error) {
    if (error instanceof FetchError) return `the API server ${error.message}`;
    if (error instanceof OperatorError) return printable(error.message);
    throw error;
  }
}

function loginSender({ read }: IdentifiedLogin): SendRequest {
  return async ({ path }) => ResponseBody.parseJson(await read(path));
}

/** Makes a sender with the CA's own access; a sentence if this machine lacks the credential. */
function accessSender(
  { kubernetes }: IssuerTable,
  { clusterCredentials: credentials }: Configuration,
): SendRequest | string {
  if (!kubernetes) return "its table gives no kubernetes access: give --kubeconfig or --context";
  if (!credentials.has(kubernetes.credential)) {
    return `its credential is not set: set ${kubernetes.credential}, or give --kubeconfig or --context`;
  }
  return clientOf(kubernetes, { fetchTrusting: NodeFetch.trusting, credentials }).send;
}

/** Bounds the time of all pages together. */
function inTime(send: SendRequest): SendRequest {
  const deadline = AbortSignal.timeout(timeoutMilliseconds);
  return async (request) => {
    if (deadline.aborted) throw new FetchError("takes too long to list its ConfigMaps");
    return send(request);
  };
}

/**
 * Shares the text of equal bundles, and bounds that of different ones.
 * @throws FetchError, from the function that it returns, beyond the bound.
 */
function keeping(): (held: HeldRoots) => HeldRoots {
  const known = new Map<string, string>();
  let characters = 0;
  return (held) => {
    const pem = known.get(held.pem) ?? held.pem;
    if (!known.has(pem)) characters += pem.length;
    if (characters > maximumDistinctCharacters)
      throw new FetchError("has too many different bundles");
    known.set(pem, pem);
    return { ...held, pem };
  };
}

/** The kubeconfig and the contexts by which the operator's own login reaches clusters. */
export interface LoginChoice {
  readonly kubeconfig?: string;
  readonly context?: readonly string[];
}

/** A login with the issuer that its API server names. */
interface IdentifiedLogin extends ClusterLogin {
  readonly issuer: string | undefined;
  /** Why the issuer could not be read; `undefined` if it was. */
  readonly fault: string | undefined;
}

/** Adds the options that choose kubeconfigs and contexts. */
export function addLoginOptions(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "ask the cluster of this kubeconfig which roots it has")
    .addOption(
      new Option(
        "--context <names...>",
        "ask the clusters of these contexts, instead of the current one",
      ),
    );
}

/**
 * Reads the chosen logins, and asks each API server for its issuer; none if no option chooses one.
 * @throws OperatorError for a login that cannot be read.
 */
async function identifyLogins(
  { kubeconfig, context }: LoginChoice,
  environment: NodeJS.ProcessEnv,
): Promise<IdentifiedLogin[]> {
  if (kubeconfig === undefined && context === undefined) return [];
  const logins = (context ?? [undefined]).map((name) =>
    readKubeconfig(kubeconfig, name, environment),
  );
  return Promise.all((await Promise.all(logins)).map(identify));
}

async function identify(login: ClusterLogin): Promise<IdentifiedLogin> {
  try {
    const document = await login.read("/.well-known/openid-configuration");
    return { ...login, issuer: issuerIn(document), fault: undefined };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { ...login, issuer: undefined, fault: error.message };
  }
}
