import { createServer } from "node:http";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { Sequencer } from "../../../src/tlog/sequencer/sequencer.ts";
import { tokenEntry } from "../log/token-entry.ts";
import { listenOnLoopback } from "../network/loopback.ts";
import { type MemoryObjects, memoryKeys, memoryOrigin, memoryParts } from "./memory-log.ts";

/** A log of several shards over HTTP, without a CA. */
export interface ServedShards {
  /** The prefix of all shards. */
  readonly url: string;
  /** Appends entries of tokens to a shard, which is new if there is none of this name, and publishes it. */
  readonly append: (shard: string, count: number) => Promise<void>;
  readonly objects: (shard: string) => MemoryObjects;
  /** Has the program behind a shard begin anew. */
  readonly restart: (shard: string) => Promise<void>;
  /** Takes a shard out of the list; its objects stay. */
  readonly unlist: (shard: string) => void;
  /** What the server shows no more, though it lists it. */
  readonly hidden: Set<string>;
  readonly end: () => Promise<void>;
}

export async function serveShards(): Promise<ServedShards> {
  const shards = new Map<string, { log: Sequencer; parts: ReturnType<typeof memoryParts> }>();
  const listed = new Set<string>();
  const hidden = new Set<string>();
  const server = createServer((request, response) => {
    const [, , shard = "", path = ""] = /^\/(log)\/([^/]*)\/?(.*)$/.exec(request.url ?? "") ?? [];
    const list = [...listed].map((each) => ({
      shard: each,
      origin: originOf(each),
      verifierKey: shards.get(each)?.log.verifierKey,
    }));
    const octets = hidden.has(shard)
      ? undefined
      : shards.get(shard)?.parts.objects.stored.get(path);
    if (shard === "logs.json") response.end(JSON.stringify(list));
    else if (octets) response.end(octets);
    else response.writeHead(404).end();
  });
  const { host, close } = await listenOnLoopback(server);
  return {
    url: `http://${host}/log`,
    append: async (shard, count) => {
      const origin = originOf(shard);
      const parts = memoryParts({ origin, keys: memoryKeys(origin) });
      const known = shards.get(shard) ?? { log: await Sequencer.open(parts), parts };
      shards.set(shard, known);
      listed.add(shard);
      for (let i = 0; i < count; i++) await known.log.append(LogEntry.format(tokenEntry()));
      await known.log.publish();
    },
    objects: (shard) => shards.get(shard)?.parts.objects ?? memoryParts().objects,
    restart: async (shard) => {
      const parts = shards.get(shard)?.parts;
      if (parts) shards.set(shard, { log: await Sequencer.open(parts), parts });
    },
    unlist: (shard) => void listed.delete(shard),
    hidden,
    end: async () => void (await close()),
  };
}

export const originOf = (shard: string): string => `${memoryOrigin}/${shard}`;
