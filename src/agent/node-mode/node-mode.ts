import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import * as z from "zod/mini";
import { messageOf } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import { JsonBounds } from "../../foundation/json.ts";
import { jsonIn } from "../../foundation/json-members.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { CoalescedWork } from "../../program/coalesced-work.ts";
import { SmallFile } from "../../program/files/small-file.ts";
import type { AgentConfiguration, AgentSubject } from "../configuration.ts";
import type { CertificateCache } from "../identity/certificate-cache.ts";
import type { Identities } from "../identity/identities.ts";
import { watchFile } from "../secrets/file-watch.ts";
import { listenOnSocket } from "../sockets/unix-socket.ts";
import {
  parseWorkload,
  type Workload,
  type WorkloadFeed,
  type WorkloadListener,
  WorkloadRegistry,
} from "./workload-registry.ts";

interface NodeParts {
  readonly configuration: Pick<AgentConfiguration, "trustDomain">;
  readonly identities: Identities;
  readonly cache: CertificateCache | undefined;
  readonly log: OperationLog;
}

const socketPrefix = "unix:";

/** Starts the feed of a node's workloads, and keeps their identities refreshed. */
export async function startNodeMode(
  { feed, lingerMilliseconds }: Extract<AgentSubject, { mode: "node" }>,
  { configuration, identities, cache, log }: NodeParts,
): Promise<WorkloadFeed> {
  const registry = new WorkloadRegistry({
    lingerMilliseconds,
    addIdentity: (spiffeId) => void identities.add(spiffeId),
    removeIdentity: (spiffeId) => {
      identities.remove(spiffeId);
      log.operation({ event: "identity-dropped", level: "info", spiffeId });
      void cache?.remove(spiffeId);
    },
  });
  const { trustDomain } = configuration;
  const path = feed.replace(socketPrefix, "");
  const start = feed.startsWith(socketPrefix) ? startSocketFeed : startFileFeed;
  const source = await start({ path, trustDomain, listener: registry, log });
  return {
    get fault() {
      return source.fault;
    },
    async close() {
      registry.close();
      await source.close();
    },
  };
}

const maximumBytes = 4 << 20;

/** The feed's answer and fault when there are more workloads than any node runs. */
const tooManyWorkloads = "too many workloads";

interface FeedOptions {
  readonly path: string;
  readonly trustDomain: TrustDomain;
  readonly listener: WorkloadListener;
  readonly log: OperationLog;
}

/**
 * Starts a feed from a file of lines `uid namespace serviceaccount`; `#` begins a comment. The file lists every
 * workload. It resolves even if the first read fails, and `fault` says why until a read succeeds. If the file is missing or
 * malformed later, the last list stays in force; that is logged, but is no fault.
 */
export async function startFileFeed(options: FeedOptions): Promise<WorkloadFeed> {
  const { path, listener, log, trustDomain } = options;
  let fault: string | undefined = `${path} has not been read`;
  const reads = new CoalescedWork(async () => {
    try {
      const workloads = parseWorkloadFile(await SmallFile.read(path, maximumBytes), trustDomain);
      if (!listener.replaceAll(workloads)) throw new Error(tooManyWorkloads);
      fault = undefined;
      log.operation({ event: "workloads-read", level: "info", workloads: workloads.length });
    } catch (error) {
      if (fault !== undefined) fault = messageOf(error);
      OperationLog.logFault(log, "workloads-unread", error, { level: "error", path });
    }
  });
  const unwatch = watchFile(path, () => void reads.run(), { debounceMilliseconds: 100 });
  await reads.run();
  return {
    get fault() {
      return fault;
    },
    close: async () => unwatch(),
  };
}

/**
 * Parses lines of `uid namespace serviceaccount`. It ignores empty lines and what follows a `#`.
 * @throws Error with the number of the first line that is malformed.
 */
export function parseWorkloadFile(text: string, trustDomain: TrustDomain): readonly Workload[] {
  return text.split("\n").flatMap((line, i) => {
    const [content = ""] = line.split("#");
    const words = content.trim().split(/\s+/);
    if (words[0] === "") return [];
    const [uid = "", namespace = "", serviceAccount = "", ...rest] = words;
    const workload = parseWorkload(trustDomain, uid, namespace, serviceAccount);
    if (workload && rest.length === 0) return [workload];
    throw new Error(`line ${i + 1} must be: uid namespace serviceaccount`);
  });
}

/** In octets: enough for the longest list of workloads. */
const maximumLineLength = 8 << 20;
const maximumConnections = 64;

const workloadSchema = { uid: z.string(), namespace: z.string(), serviceAccount: z.string() };

const commandSchema = z.discriminatedUnion("op", [
  z.strictObject({ op: z.literal("add"), ...workloadSchema }),
  z.strictObject({ op: z.literal("remove"), uid: z.string() }),
  z.strictObject({ op: z.literal("sync"), workloads: z.array(z.strictObject(workloadSchema)) }),
  z.strictObject({ op: z.literal("list") }),
]);

/**
 * Starts a feed from a socket, for a CNI plugin or the like. Each line is a command in JSON, and the feed answers it
 * with a line. Workloads stay when the connection that added them closes; a restarted agent knows none. The feed has a
 * fault until the first `sync`, which lists all workloads.
 */
export async function startSocketFeed({
  path,
  trustDomain,
  listener,
}: FeedOptions): Promise<WorkloadFeed> {
  const sockets = new Set<Socket>();
  let fault: string | undefined = "no list of the node's workloads has come (op sync)";
  const answer = (line: string): string => {
    const command = commandSchema.safeParse(jsonIn(line, JsonBounds.of(maximumLineLength))).data;
    const result = command ? execute(command, trustDomain, listener) : refusal("not a command");
    if (command?.op === "sync" && result.ok) fault = undefined;
    return `${JSON.stringify(result)}\n`;
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    readLines(socket, answer);
  });
  server.maxConnections = maximumConnections;
  await listenOnSocket(server, path, 0o600);
  return {
    get fault() {
      return fault;
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      if (server.listening) await once(server, "close");
    },
  };
}

function readLines(socket: Socket, answer: (line: string) => string): void {
  let rest = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    rest += chunk;
    if (rest.length > maximumLineLength) socket.destroy();
    if (!chunk.includes("\n")) return;
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    const answers = lines.map(answer).join("");
    // The feed stops reading from a client that does not read its answers.
    if (answers && !socket.write(answers)) {
      socket.pause();
      socket.once("drain", () => socket.resume());
    }
  });
}

type Command = z.output<typeof commandSchema>;
type AddCommand = Extract<Command, { readonly op: "add" }>;

type CommandResult =
  | { readonly ok: true; readonly workloads?: readonly Workload[] }
  | { readonly ok: false; readonly error: string };

const refusal = (error: string): CommandResult => ({ ok: false, error });

function execute(
  command: Command,
  trustDomain: TrustDomain,
  listener: WorkloadListener,
): CommandResult {
  const parse = ({ uid, namespace, serviceAccount }: Omit<AddCommand, "op">) =>
    parseWorkload(trustDomain, uid, namespace, serviceAccount);
  switch (command.op) {
    case "add": {
      const workload = parse(command);
      if (!workload) return refusal("not a workload");
      return listener.add(workload) ? { ok: true } : refusal(tooManyWorkloads);
    }
    case "remove":
      listener.remove(command.uid);
      return { ok: true };
    case "sync": {
      const workloads = command.workloads.map(parse).filter((each) => each !== undefined);
      if (workloads.length < command.workloads.length) return refusal("not a list of workloads");
      return listener.replaceAll(workloads) ? { ok: true } : refusal(tooManyWorkloads);
    }
    case "list":
      return { ok: true, workloads: listener.list() };
  }
}
