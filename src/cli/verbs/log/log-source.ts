import type { Command } from "commander";
import * as z from "zod/mini";
import { isSafeToFetch } from "../../../foundation/addresses.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { FetchError, ResponseBody, toFetchError } from "../../../foundation/fetch.ts";
import { parseJson } from "../../../foundation/json.ts";
import { PemFile } from "../../../program/files/pem-file.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import type { ObjectReader } from "../../../tlog/extend.ts";
import { LogError } from "../../../tlog/log-error.ts";
import { LogPolicy } from "../../../tlog/note/policy.ts";
import { VerifierKey } from "../../../tlog/note/verifier-key.ts";
import {
  addExitCodes,
  exitCodes,
  type GradedOutcomes,
  usageError,
} from "../../terminal/command-line.ts";
import type { Environment } from "../../terminal/terminal.ts";
import type { FollowerIndex } from "./follower-index.ts";

/** The options that choose a log and the keys that must sign its checkpoints. */
export interface SourceOptions {
  readonly url?: string;
  readonly ca?: string;
  readonly key?: string;
  readonly policy?: string;
}

/** A log that is read over HTTP. */
export interface LogSource {
  readonly url: string;
  readonly read: ObjectReader;
  /**
   * The verifier key that the server announces, which is only as trustworthy as the connection; `undefined` if it
   * announces none.
   */
  readonly announcedKey: () => Promise<string | undefined>;
  /** The names of the shards below this prefix; empty if it is a shard itself. It fails like {@link read}. */
  readonly shardsBelow: () => Promise<readonly string[]>;
  /** The URLs of the other shards beside this one; if there are none, of the shards below `url`. */
  readonly otherShards: () => Promise<readonly string[]>;
}

/** The errors of a server certificate that leads to no trusted root. */
const unknownRoot = /SELF_SIGNED|UNABLE_TO_(?:GET_ISSUER|VERIFY_LEAF)/;

const tokenVariable = "RAMPART_LOG_TOKEN";

const maximumOctets = 32 * 1024 * 1024;
const timeoutMilliseconds = 30_000;
const maximumPolicyOctets = 64 * 1024;

/**
 * Opens a log below its prefix, such as `https://ca.example.com/log/0`, without calling it. Its reads resolve to
 * `undefined` for 404, and throw OperatorError for 401 and an unknown root, FetchError for any other failure.
 * @returns `undefined` without a URL.
 * @throws OperatorError for an unsafe URL.
 */
export async function openSource(
  { url, ca }: SourceOptions,
  environment: Environment,
): Promise<LogSource | undefined> {
  if (url === undefined) return undefined;
  const prefix = url.replace(/\/+$/, "");
  if (!isSafeToFetch(prefix)) throw usageError("--url must be an https URL: a token is sent there");
  const fetch = NodeFetch.trusting(await PemFile.readRoots(ca));
  const token = environment[tokenVariable];
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const read = async (target: string): Promise<Uint8Array | undefined> => {
    const response = await fetch(target, {
      headers,
      signal: AbortSignal.timeout(timeoutMilliseconds),
    }).catch((error: unknown) => {
      const fault = toFetchError(error, `${target} does not answer`);
      throw ca === undefined && unknownRoot.test(fault.message)
        ? new OperatorError(`${fault.message}: give --ca the roots of its certificate`)
        : fault;
    });
    const octets = await ResponseBody.readOctets(response, maximumOctets).catch(
      (error: unknown) => {
        throw toFetchError(error, `${target} broke off its answer`);
      },
    );
    if (response.status === 404) return undefined;
    if (response.status === 401) {
      throw new OperatorError(`${target} wants the token of a reader: set ${tokenVariable}`);
    }
    if (response.status !== 200) {
      throw new FetchError(`${target} answered ${response.status}, ${octets.length} octets`);
    }
    return octets;
  };
  const parent = prefix.replace(/[^/]*$/, "");
  const shards = async () => shardsIn(await read(`${parent}logs.json`));
  const own = prefix.slice(parent.length);
  const shardsBelow = async () =>
    shardsIn(await read(`${prefix}/logs.json`)).map(({ shard }) => shard);
  return {
    url: prefix,
    read: (path) => read(`${prefix}/${path}`),
    announcedKey: async () => (await shards()).find(({ shard }) => shard === own)?.verifierKey,
    shardsBelow,
    otherShards: async () => {
      const beside = (await shards()).filter(({ shard }) => shard !== own);
      if (beside.length > 0) return beside.map(({ shard }) => parent + shard);
      return (await shardsBelow()).map((shard) => `${prefix}/${shard}`);
    },
  };
}

/** The name of a shard, which is a folder in that of a copy. */
export const shardName = /^[0-9]{1,3}$/;

const shardList = z.array(
  z.object({ shard: z.string().check(z.regex(shardName)), verifierKey: z.string() }),
);

function shardsIn(json: Uint8Array | undefined): z.infer<typeof shardList> {
  try {
    return shardList.parse(json?.length ? parseJson(json) : []);
  } catch (error) {
    throw new FetchError("logs.json is no list of shards", { cause: error });
  }
}

/**
 * Reads the policy that an operator chose: a file, or else a key alone without witnesses.
 * @returns `undefined` if neither is given.
 * @throws OperatorError for an unreadable or malformed one.
 */
export async function chosenPolicy({ key, policy }: SourceOptions): Promise<LogPolicy | undefined> {
  if (policy !== undefined) {
    const text = await SmallFile.read(policy, maximumPolicyOctets);
    return orUsageError(policy, () => LogPolicy.parse(text));
  }
  return key === undefined ? undefined : orUsageError("--key", () => policyOfKey(key));
}

/**
 * Runs a parser of an operator's input.
 * @throws OperatorError with the exit code `usage` for a LogError; any other error as it is.
 */
export function orUsageError<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof LogError)) throw error;
    throw usageError(`${what}: ${error.message}`);
  }
}

/** Makes a policy that trusts one log's key, and demands no witness. @throws LogError for a malformed key. */
export function policyOfKey(text: string): LogPolicy {
  return { logs: [{ key: VerifierKey.parse(text) }], witnesses: [], isQuorum: () => true };
}

/** Adds to the help of a verb that reads a log when it ends with `broken`, or with `graded`. */
export const addLogExitCodes = (command: Command, graded: GradedOutcomes = {}): Command =>
  addExitCodes(command, {
    ...graded,
    broken: "The log contradicts itself, its signature or what is known of it.",
  });

/**
 * Runs work on a log.
 * @throws OperatorError with the exit code `broken` for a LogError, and with `failed` for a FetchError.
 */
export async function judgingLog<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LogError) {
      throw new OperatorError(`the log does not hold: ${error.message}`, {
        exitCode: exitCodes.broken,
      });
    }
    if (error instanceof FetchError) throw new OperatorError(`the log: ${error.message}`);
    throw error;
  }
}

/** Throws an OperatorError with the exit code `attention`: a person must look. */
export function throwNeedsAttention(sentence: string): never {
  throw new OperatorError(sentence, { exitCode: exitCodes.attention });
}

/**
 * Requires that some entry has the cluster, if one is given. Entries have a cluster's name, never an alias.
 * @throws OperatorError with the exit code `usage` that lists the clusters.
 */
export function requireCluster(
  indexes: readonly Pick<FollowerIndex, "clusters">[],
  cluster: string | undefined,
): void {
  const known = new Set(indexes.flatMap((each) => each.clusters()));
  if (cluster === undefined || known.has(cluster)) return;
  const names = [...known].join(", ") || "none";
  throw usageError(`--cluster: no entry has ${cluster}: there are ${names}`);
}
