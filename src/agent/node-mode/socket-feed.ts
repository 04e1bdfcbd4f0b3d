import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import * as z from "zod/mini";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { listenOnSocket } from "../socket/unix-socket.ts";
import type { FeedOptions } from "./file-feed.ts";
import { parseWorkload, type WorkloadFeed, type WorkloadListener } from "./workload.ts";

const maximumLineLength = 4096;
const maximumConnections = 64;

const commandForm = z.discriminatedUnion("op", [
  z.strictObject({
    op: z.literal("add"),
    uid: z.string(),
    namespace: z.string(),
    serviceAccount: z.string(),
  }),
  z.strictObject({ op: z.literal("remove"), uid: z.string() }),
]);

/**
 * Starts a feed from a socket, for a CNI plugin or the like. Each line is a command in JSON, and the feed
 * answers it with a line. Workloads stay when their connection ends.
 */
export async function startSocketFeed({
  path,
  trustDomain,
  listener,
}: FeedOptions): Promise<WorkloadFeed> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    readLines(socket, (line) => `${JSON.stringify(execute(line, trustDomain, listener))}\n`);
  });
  server.maxConnections = maximumConnections;
  await listenOnSocket(server, path, 0o600);
  return {
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
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    const answers = lines.map(answer).join("");
    // The feed stops reading from a client that does not read its answers.
    if (answers && !socket.write(answers)) {
      socket.pause();
      socket.once("drain", () => socket.resume());
    }
    if (rest.length > maximumLineLength) socket.destroy();
  });
}

type CommandResult = { readonly ok: true } | { readonly ok: false; readonly error: string };

function execute(
  line: string,
  trustDomain: TrustDomain,
  listener: WorkloadListener,
): CommandResult {
  const command = parseCommand(line);
  if (!command) return { ok: false, error: "not a command" };
  if (command.op === "remove") {
    listener.remove(command.uid);
    return { ok: true };
  }
  const { uid, namespace, serviceAccount } = command;
  const workload = parseWorkload(trustDomain, uid, namespace, serviceAccount);
  if (!workload) return { ok: false, error: "not a workload" };
  return listener.add(workload) ? { ok: true } : { ok: false, error: "too many workloads" };
}

function parseCommand(line: string): z.output<typeof commandForm> | undefined {
  try {
    return commandForm.safeParse(JSON.parse(line)).data;
  } catch {
    // Text that is not JSON gets the answer of any other unknown command.
    return undefined;
  }
}
