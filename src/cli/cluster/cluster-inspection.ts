import { clientOf } from "../../compose/cluster-reach.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { IssuerTable } from "../../config/issuer-table.ts";
import { FetchError, parseJson } from "../../foundation/json-fetch.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { fetchTrusting } from "../../host/node-fetch.ts";
import type { SendRequest } from "../../kubernetes/client.ts";
import { type ClusterRoots, listRoots } from "../../kubernetes/cluster-roots.ts";
import { type HeldRoots, usualConfigMap } from "../../kubernetes/root-config-map.ts";
import { printable } from "../terminal/printable.ts";
import { type KnownLogin, knownLogins, type LoginChoice } from "./cluster-logins.ts";

/** What a cluster showed of the roots in it, from this terminal. */
export interface ClusterInspection {
  readonly cluster: string;
  /** Nothing for a login that stands for none of `ISSUERS`. */
  readonly issuer: string | undefined;
  /** What it has, or in words why it cannot be asked. */
  readonly roots: ClusterRoots<HeldRoots> | string;
}

const lookedAtAtOnce = 8;
const lookMilliseconds = 60_000;
const maximumDistinctCharacters = 16 * 1024 * 1024;

/**
 * Asks every cluster of a configuration that can be asked from here: by a login, or by the access that
 * its table gives, where its credential is at hand.
 *
 * @throws OperatorError for a login that is none.
 */
export async function inspectClusters(
  configuration: Configuration,
  choice: LoginChoice,
): Promise<ClusterInspection[]> {
  const logins = await knownLogins(choice);
  const { issuers } = configuration;
  const sights: ClusterInspection[] = [];
  for (let i = 0; i < issuers.length; i += lookedAtAtOnce) {
    const some = issuers.slice(i, i + lookedAtAtOnce);
    sights.push(...(await Promise.all(some.map((table) => lookAt(table, logins, configuration)))));
  }
  const asked = issuers.flatMap((table) => loginFor(table, logins) ?? []);
  const others = logins.filter(({ server }) => !asked.some((each) => each.server === server));
  return [...sights, ...others.map((login) => unaskedSight(login, asked))];
}

const loginFor = (table: IssuerTable, logins: readonly KnownLogin[]): KnownLogin | undefined =>
  logins.find((each) => isOf(each, table));

const isOf = ({ issuer, server }: KnownLogin, table: IssuerTable): boolean =>
  issuer === undefined ? server === table.kubernetes?.server : issuer === table.issuer;

/** Two clusters may show one issuer, by mistake or not: one of them says nothing of the other. */
function unaskedSight(login: KnownLogin, asked: readonly KnownLogin[]): ClusterInspection {
  const { name, issuer, fault } = login;
  const twin = asked.find((each) => each.issuer === issuer);
  const whose = twin ? `that of context ${twin.name}, too` : "none of ISSUERS";
  const why = fault ?? `its issuer "${issuer}" is ${whose}`;
  return { cluster: printable(`context ${name}`), issuer: undefined, roots: printable(why) };
}

async function lookAt(
  table: IssuerTable,
  logins: readonly KnownLogin[],
  configuration: Configuration,
): Promise<ClusterInspection> {
  const { cluster, issuer, kubernetes } = table;
  const login = loginFor(table, logins);
  const send = login ? loginSender(login) : accessSender(table, configuration);
  if (typeof send === "string") return { cluster, issuer, roots: send };
  try {
    const name = kubernetes?.config_map ?? usualConfigMap;
    return { cluster, issuer, roots: await listRoots(inTime(send), name, keeping()) };
  } catch (error) {
    if (error instanceof FetchError) {
      return { cluster, issuer, roots: `the API server ${error.message}` };
    }
    if (error instanceof OperatorError) return { cluster, issuer, roots: printable(error.message) };
    throw error;
  }
}

function loginSender({ read }: KnownLogin): SendRequest {
  return async ({ path }) => parseJson(await read(path));
}

/** The access of the CA itself, or why there is none here. */
function accessSender(
  { kubernetes }: IssuerTable,
  { clusterCredentials: credentials }: Configuration,
): SendRequest | string {
  if (!kubernetes) return "no kubernetes access: give --kubeconfig, or --context";
  if (!credentials.has(kubernetes.credential)) {
    return `no credential here: set ${kubernetes.credential}, or give --kubeconfig or --context`;
  }
  return clientOf(kubernetes, { fetchTrusting, credentials }).send;
}

/** A server that drips pages ends some time. */
function inTime(send: SendRequest): SendRequest {
  const deadline = AbortSignal.timeout(lookMilliseconds);
  return async (request) => {
    if (deadline.aborted) throw new FetchError("takes too long to list what it has");
    return send(request);
  };
}

/** Equal bundles are kept once, and different ones only up to a bound. */
function keeping(): (held: HeldRoots) => HeldRoots {
  const known = new Map<string, string>();
  let characters = 0;
  return (held) => {
    const pem = known.get(held.pem) ?? held.pem;
    if (!known.has(pem)) characters += pem.length;
    if (characters > maximumDistinctCharacters) throw new FetchError("has too many bundles");
    known.set(pem, pem);
    return { ...held, pem };
  };
}
