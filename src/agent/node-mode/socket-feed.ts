import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import * as z from "zod/mini";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { listenOnSocket } from "../socket/unix-socket.ts";
import type { FeedOptions } from "./file-feed.ts";
import { parseWorkload, type WorkloadAudience, type WorkloadFeed } from "./workload.ts";

const maximumLine = 4096;
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
 * Workloads from whoever may open a socket, such as a CNI plugin: one command in JSON a line, each
 * answered by a line. What was said stays when the connection ends.
 */
export async function startSocketFeed({
  path,
  trustDomain,
  audience,
}: FeedOptions): Promise<WorkloadFeed> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    readLines(socket, (line) => `${JSON.stringify(obey(line, trustDomain, audience))}\n`);
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
    // Who does not read the answers is not read either.
    if (answers && !socket.write(answers)) {
      socket.pause();
      socket.once("drain", () => socket.resume());
    }
    if (rest.length > maximumLine) socket.destroy();
  });
}

type Obeyed = { readonly ok: true } | { readonly ok: false; readonly error: string };

function obey(line: string, trustDomain: TrustDomain, audience: WorkloadAudience): Obeyed {
  const command = parseCommand(line);
  if (!command) return { ok: false, error: "not a command" };
  if (command.op === "remove") {
    audience.remove(command.uid);
    return { ok: true };
  }
  const { uid, namespace, serviceAccount } = command;
  const workload = parseWorkload(trustDomain, uid, namespace, serviceAccount);
  if (!workload) return { ok: false, error: "not a workload" };
  return audience.add(workload) ? { ok: true } : { ok: false, error: "too many workloads" };
}

function parseCommand(line: string): z.output<typeof commandForm> | undefined {
  try {
    return commandForm.safeParse(JSON.parse(line)).data;
  } catch {
    // Not even JSON: the answer is the same.
    return undefined;
  }
}
