import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { loggedEntry } from "../../../src/cli/verbs/log/entry.ts";
import {
  exportedEntry,
  exportedLine,
  toOcsf,
} from "../../../src/cli/verbs/log/export/exported-event.ts";
import { Tile } from "../../../src/tlog/tile.ts";
import { tokenEntry } from "../../testkit/log/token-entry.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type Child, runWell, startChild } from "../../testkit/programs/child-process.ts";
import { launchRampart, sourceProgram } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { startLoggedCa } from "../../testkit/tlog/logged-ca.ts";
import { originOf, type ServedShards, serveShards } from "../../testkit/tlog/served-shards.ts";
import { collectorWords } from "./collector.ts";

/** Each shard gets so many entries at once, so often. */
const [entries, rounds] = [400, 12];
const shards = ["0", "1", "2"];

/** The most events of one request: those of the one that a killed collector had accepted, and could not say so. */
const batchEvents = 500;

/** A program that is killed now and then, and started again at once. */
export class Restarted {
  readonly #start: () => Child;
  #child: Child;
  kills = 0;

  constructor(start: () => Child) {
    this.#start = start;
    this.#child = start();
  }

  /** @param meanwhile Lasts until it is started again. */
  async kill(meanwhile: () => Promise<unknown> = async () => {}): Promise<void> {
    this.kills++;
    await this.#child.end("SIGKILL");
    await meanwhile();
    this.#child = this.#start();
  }

  get lines(): readonly string[] {
    return this.#child.lines;
  }

  end(): Promise<number> {
    return this.#child.end("SIGKILL");
  }
}

const followerOf = (log: ServedShards, folder: string, to: string, ...words: readonly string[]) =>
  new Restarted(() =>
    launchRampart(
      [
        ...["log", "follow", "--url", log.url, "--dir", join(folder, "copy"), "--to", to],
        ...["--every", "1s", "--stale-after", "876000h", ...words],
      ],
      { command: [process.execPath, sourceProgram] },
    ),
  );

/** Appends to every shard, while something is killed, until all is exported. */
async function play(
  log: ServedShards,
  follower: Restarted,
  kill: (round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    await Promise.all(shards.map((shard) => log.append(shard, entries)));
    await sleep(600);
    await kill(round);
  }
  const all = entries * rounds;
  const isDone = (): boolean =>
    shards.every((shard) =>
      follower.lines.some((line) =>
        line.includes(`${originOf(shard)}: ${all} entries, ${all} exported`),
      ),
    );
  await until("all is exported", isDone, 180).catch((error) => {
    throw new Error(`${error}: ${follower.lines.slice(-5)}`);
  });
}

/** @returns The number of names that came more than once. @throws Error unless each shard came whole, in its order. */
function doubledIn(names: readonly string[]): number {
  const first = [...new Set(names)];
  for (const shard of shards) {
    const own = first.filter((name) => name.startsWith(`${originOf(shard)}#`));
    const expected = Array.from({ length: entries * rounds }, (_, i) => `${originOf(shard)}#${i}`);
    const wrong = expected.findIndex((name, i) => name !== own[i]);
    if (wrong >= 0 || own.length !== expected.length) {
      throw new Error(
        `shard ${shard}: ${own.length} of ${expected.length}, ${own[wrong]} at ${wrong}`,
      );
    }
  }
  return names.length - first.length;
}

/** Into a collector of OpenTelemetry, which and whose sender are killed in turn. */
export async function exportToCollector(program: string): Promise<void> {
  const [folder, log, [port = 0]] = [
    await lastingFolder(),
    await serveShards(),
    await freePorts(1),
  ];
  const file = join(folder, "records");
  const words = collectorWords(port, file);
  const collector = new Restarted(() => startChild(program, words));
  const follower = followerOf(log, folder, `http://127.0.0.1:${port}`, "--ocsf");
  try {
    await play(log, follower, (round) =>
      round % 3 === 2 ? follower.kill() : collector.kill(() => sleep(round * 150)),
    );
  } finally {
    await Promise.all([follower.end(), collector.end(), log.end()]);
  }
  const records = recordsIn(await readFile(file, "utf8"));
  const wrong = records.find(({ body }) => !JSON.stringify(body).includes('"class_uid"'));
  if (wrong) throw new Error(`no event of OCSF: ${JSON.stringify(wrong)}`);
  const doubled = doubledIn(
    records.map(({ attributes }) => String(attributes[0]?.value.stringValue)),
  );
  const killed = collector.kills + follower.kills;
  console.log(`log: ${killed} kills, ${records.length} records, 0 lost, ${doubled} doubled`);
  if (doubled > killed * batchEvents) throw new Error(`${doubled} doubled by ${killed} kills`);
}

interface LogRecord {
  readonly body: unknown;
  readonly attributes: readonly { readonly value: { readonly stringValue: string } }[];
}

interface LogsRequest {
  readonly resourceLogs: readonly { scopeLogs: readonly { logRecords: readonly LogRecord[] }[] }[];
}

const recordsIn = (text: string): readonly LogRecord[] =>
  text
    .trimEnd()
    .split("\n")
    .flatMap((line) => (JSON.parse(line) as LogsRequest).resourceLogs)
    .flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords));

/**
 * Entries of each kind and a refusal as events of OCSF, judged by a stranger's JSON schemas. These are of 1.8.0, which
 * has the two classes with all that is used of 1.9.0.
 */
export async function judgeOcsf(interpreter: string): Promise<void> {
  const ca = await startLoggedCa();
  await ca.renew(await ca.issue());
  await ca.log.publish();
  ca.end();
  const bundle = ca.objects.stored.get("tile/entries/000.p/3") ?? new Uint8Array();
  const octets = [...Tile.parseBundle(bundle, 3), LogEntry.format(tokenEntry({ tokenId: "t" }))];
  const entries = octets.map((each, idx) =>
    exportedEntry("log.example.com/2026/0", {
      idx,
      octets: each.slice(),
      ...loggedEntry(LogEntry.parse(each)),
    }),
  );
  const refusal = {
    time: new Date(),
    event: "create-token",
    outcome: "refused",
    peer: "192.0.2.7",
  };
  const line = exportedLine(JSON.stringify({ ...refusal, reason: "lifetime-too-long" }));
  const events = [...entries, ...(line ? [line] : [])].map(toOcsf);
  const input = events.map((event) => `${JSON.stringify(event)}\n`).join("");
  const judge = [join(import.meta.dirname, "ocsf.py"), "1.8.0"];
  const said = await runWell(interpreter, judge, { input });
  if (said !== '{"3004": 1, "3002": 4}\n') throw new Error(said);
  const broken = await runWell(interpreter, judge, { input: input.replace('"domain"', '"name2"') });
  if (!broken.includes("name2")) throw new Error(`no fault found: ${broken}`);
}
