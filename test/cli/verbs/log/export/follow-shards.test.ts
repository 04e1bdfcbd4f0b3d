import {
  appendFile,
  copyFile,
  readFile,
  rename,
  rm,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { Export } from "../../../../../src/cli/verbs/log/export/export.ts";
import type { ExportedEvent } from "../../../../../src/cli/verbs/log/export/exported-event.ts";
import { addSeconds } from "../../../../../src/pki/x509/validity.ts";
import { startLoopbackServer } from "../../../../testkit/network/loopback-server.ts";
import {
  createOperatorFolder,
  type OperatorFolder,
  rampartHere,
} from "../../../../testkit/programs/command-line.ts";
import { MemoryTerminal } from "../../../../testkit/programs/memory-terminal.ts";
import { launchRampart } from "../../../../testkit/programs/rampart-process.ts";
import {
  originOf,
  type ServedShards,
  serveShards,
} from "../../../../testkit/tlog/served-shards.ts";

let folder: OperatorFolder;
let log: ServedShards;

beforeEach(async () => {
  [folder, log] = await Promise.all([createOperatorFolder(), serveShards()]);
  await log.append("0", 3);
  await log.append("1", 2);
  return () => log.end();
});

const follow = (words = "", environment: Readonly<Record<string, string>> = {}) =>
  rampartHere(
    folder,
    `log follow --url ${log.url} --dir ./copy --stale-after 876000h ${words}`.trim(),
    environment,
  );

const inFolder = (name: string): string => join(folder.path, name);

async function written(name = "events.jsonl"): Promise<readonly string[]> {
  const lines = (await readFile(inFolder(name), "utf8")).split("\n");
  expect(lines.pop()).toBe("");
  return lines.map((line) => JSON.parse(line)).map(nameOf);
}

const nameOf = ({ origin, index, requestId }: Readonly<Record<string, unknown>>): string =>
  origin === undefined ? String(requestId) : `${String(origin).slice(-1)}#${index}`;

describe("log follow of all shards", () => {
  test("copies each, also one that came later, and says how far each is", async () => {
    const first = await follow();
    expect(first.code).toBe(0);
    expect(first.stderr).toContain(`${originOf("0")}: 3 entries\n`);
    await log.append("2", 4);
    const second = await follow();
    expect(second.stderr).toContain(`${originOf("2")}: 4 entries\n`);
    const found = await rampartHere(folder, "log search --dir ./copy/2 --json");
    expect(found.stdout.trimEnd().split("\n")).toHaveLength(4);
  });

  test("a shard that cannot be read keeps no other one from being followed", async () => {
    await follow();
    log.hidden.add("0");
    await log.append("1", 5);
    const { code, stderr } = await follow();
    expect(code).toBe(4);
    expect(stderr).toContain(`${originOf("1")}: 7 entries\n`);
  });

  test("a shard whose name leads out of the copy is refused", async () => {
    await log.append("..", 1);
    const { code, stderr } = await follow();
    expect([code, stderr]).toEqual([1, expect.stringContaining("logs.json is no list of shards")]);
  });

  test("a shard that is listed no more is followed while it is there, and then a finding", async () => {
    await follow();
    await log.append("0", 1);
    log.unlist("0");
    const before = await follow();
    expect([before.code, before.stderr]).toEqual([0, expect.stringContaining("/0: 4 entries")]);
    log.hidden.add("0");
    const { code, stdout } = await follow();
    expect([code, JSON.parse(stdout)]).toEqual([
      3,
      { log: "0", finding: "shard-gone", detail: expect.any(String) },
    ]);
    await rm(inFolder("copy/0"), { recursive: true });
    expect(await follow()).toMatchObject({ code: 0, stdout: "" });
  });

  test("refuses one key for all of them, and options of an export without a place", async () => {
    const [{ verifierKey }] = JSON.parse(await (await fetch(`${log.url}/logs.json`)).text());
    const keyed = await follow(`--key ${verifierKey}`);
    expect(keyed).toMatchObject({ code: 2, stderr: expect.stringContaining("give --policy") });
    for (const words of ["--ocsf", "--audit ./audit"]) {
      expect(await follow(words)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("--to"),
      });
    }
  });
});

describe("log follow --to a file", () => {
  test("writes each entry once, in the order of its shard", async () => {
    await follow("--to ./events.jsonl");
    expect(await written()).toEqual(["0#0", "0#1", "0#2", "1#0", "1#1"]);
    await log.append("0", 1);
    await log.append("2", 1);
    const { stderr } = await follow("--to ./events.jsonl");
    expect(await written()).toEqual(["0#0", "0#1", "0#2", "1#0", "1#1", "0#3", "2#0"]);
    expect(stderr).toContain(`${originOf("0")}: 4 entries, 4 exported\n`);
  });

  test("writes to the standard output, and goes on where it was", async () => {
    const { stdout } = await follow("--to -");
    expect(stdout.trimEnd().split("\n")).toHaveLength(5);
    await log.append("1", 1);
    expect(nameOf(JSON.parse((await follow("--to -")).stdout))).toBe("1#2");
  });

  test("stops where the copy has another history than was exported", async () => {
    await follow("--to ./events.jsonl");
    await rm(inFolder("copy"), { recursive: true });
    await log.end();
    log = await serveShards();
    await log.append("0", 1);
    const { code, stderr } = await follow("--to ./events.jsonl");
    expect([code, stderr]).toEqual([4, expect.stringContaining("that was exported")]);
    expect(await written()).toHaveLength(5);
  });
});

const line = (requestId: string, outcome = "refused"): string =>
  `${JSON.stringify({ time: "2026-11-21T12:00:00.250Z", level: "info", event: "create-certificate", outcome, requestId })}\n`;

describe("log follow --audit", () => {
  const audited = async (): Promise<readonly string[]> => {
    await follow("--to ./events.jsonl --audit ./audit");
    return (await written()).slice(5);
  };

  test("writes refusals and faults once, and no torn line before it is whole", async () => {
    const issued = line("i1", "issued");
    await writeFile(inFolder("audit"), `${line("r1")}${issued}no JSON\n${line("f1", "failed")}`);
    await appendFile(inFolder("audit"), line("r2").slice(0, 9));
    expect(await audited()).toEqual(["r1", "f1"]);
    expect(await audited()).toEqual(["r1", "f1"]);
    await appendFile(inFolder("audit"), line("r2").slice(9));
    expect(await audited()).toEqual(["r1", "f1", "r2"]);
  });

  test("writes refusals while the log is away", async () => {
    await writeFile(inFolder("audit"), line("r1"));
    await log.end();
    const { code, stderr } = await follow("--to ./events.jsonl --audit ./audit");
    expect([code, stderr]).toEqual([1, expect.stringContaining("did not answer (ECONNREFUSED)")]);
    expect(await written()).toEqual(["r1"]);
  });

  test("takes a line behind words of journald, and an issuance that no log has", async () => {
    const unlogged = line("u1", "issued").replace("}", ',"log":"unlogged"}');
    // A line that is longer than a batch is no event, and hides none.
    const long = `${"x".repeat(300 * 1024)}\n`;
    await writeFile(inFolder("audit"), `${long}Nov 21 ca rampart[1]: ${line("r1")}${unlogged}`);
    expect(await audited()).toEqual(["r1", "u1"]);
  });

  test("goes on through rotations by name and by copy", async () => {
    const audit = inFolder("audit");
    await writeFile(audit, line("r1"));
    expect(await audited()).toEqual(["r1"]);
    await appendFile(audit, line("r2"));
    await rename(audit, `${audit}.2`);
    await utimes(`${audit}.2`, 1, 1);
    await writeFile(audit, line("r3"));
    await rename(audit, `${audit}.1`);
    await writeFile(audit, line("r4"));
    expect(await audited()).toEqual(["r1", "r2", "r3", "r4"]);
    await appendFile(audit, line("r5"));
    await copyFile(audit, `${audit}-20261121`);
    await truncate(audit);
    await appendFile(audit, line("r6"));
    expect(await audited()).toEqual(["r1", "r2", "r3", "r4", "r5", "r6"]);
  });

  test("says that lines may be missing where the file that it read last is gone", async () => {
    await writeFile(inFolder("audit"), line("r1"));
    await audited();
    await writeFile(inFolder("audit"), line("r9"));
    const { stderr } = await follow("--to ./events.jsonl --audit ./audit");
    expect(stderr).toContain("the file that was read last is gone");
    expect((await written()).slice(5)).toEqual(["r1", "r9"]);
  });
});

/** A collector that answers by its turn, and the records that it accepted. */
async function collector(
  ...answers: readonly (readonly [number, Readonly<Record<string, string>>?, string?])[]
) {
  const accepted: SentRecord[] = [];
  const times: string[] = [];
  let turn = 0;
  const server = await startLoopbackServer(async (request, response) => {
    const [status, headers = {}, body = "{}"] = answers[turn++] ?? [200];
    let text = "";
    for await (const chunk of request) text += chunk;
    times.push(String(request.headers["authorization"]));
    if (status === 0) return void request.socket.destroy();
    if (status < 300) accepted.push(...recordsIn(JSON.parse(text)));
    response.writeHead(status, headers).end(status === 204 ? undefined : body);
  });
  return { ...server, accepted, times };
}

type SentRecord = { readonly attributes: readonly { readonly value: { stringValue: string } }[] };
type SentLogs = { resourceLogs: { scopeLogs: { logRecords: SentRecord[] }[] }[] };

const recordsIn = ({ resourceLogs }: SentLogs): readonly SentRecord[] =>
  resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords));

const uidOf = ({ attributes: [uid] }: SentRecord): string => uid?.value.stringValue.slice(-3) ?? "";

describe("log follow --to a collector", () => {
  test("sends each entry once as a record of OTLP", async () => {
    const { origin, accepted, requests, times } = await collector();
    const environment = { OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Basic%20YTpi" };
    await follow(`--to ${origin}`, environment);
    await follow(`--to ${origin}`, environment);
    expect(accepted.map(uidOf)).toEqual(["0#0", "0#1", "0#2", "1#0", "1#1"]);
    expect(accepted[0]).toMatchObject({
      timeUnixNano: "1795262400250000000",
      severityNumber: 9,
      eventName: "rampart.token.issued",
    });
    expect(new Set(requests)).toEqual(new Set(["/v1/logs"]));
    expect(new Set(times)).toEqual(new Set(["Basic YTpi"]));
  });

  test("waits for a collector that is away, and counts an answer without a body as a success", async () => {
    const away = [[503], [0], [204], [429, { "retry-after": "0" }]] as const;
    const { origin, accepted } = await collector(...away);
    const { code, stderr } = await follow(`--to ${origin}/otlp/v1/logs`);
    expect(code).toBe(0);
    expect(accepted).toHaveLength(5);
    expect(stderr).toContain("the collector answered 503, and is asked again in 1 s");
  });

  test("waits five minutes at most, however long a collector asks for", async () => {
    const { origin: to } = await collector([503, { "retry-after": "86400" }]);
    let now = new Date();
    const terminal = new MemoryTerminal({ clock: () => now });
    using exporting = await Export.open(terminal, { to, dir: folder.path });
    const said = { subject: "certificate", outcome: "refused", time: "2026-11-21T12:00:00Z" };
    const event = { ...said, uid: "r1", fields: {} } as ExportedEvent;
    const batch = { events: [event], position: { at: 1, mark: "" } };
    let left = [batch];
    const run = () => exporting.run([{ name: "one", after: async () => left.pop() }]);
    expect(await run()).toBe(300_000);
    left = [batch];
    now = addSeconds(now, 299);
    expect(await run()).toBe(1_000);
    now = addSeconds(now, -3_600);
    expect([await run(), left]).toEqual([0, []]);
  });

  test("stops at what a collector refuses, and sends the same again the next time", async () => {
    const refused = [
      [[400, {}, '{"message":"no such\\u001b[1m field"}'], "answered 400: no such?[1m field"],
      [[500], "answered 500"],
      [[301, { location: "http://127.0.0.1:1/" }], "answered 301"],
      [[503, { "retry-after": "61" }], "or give --every"],
    ] as const;
    const { origin, accepted } = await collector(...refused.map(([answer]) => answer));
    for (const [, said] of refused) {
      const { code, stderr } = await follow(`--to ${origin}`);
      expect([code, stderr]).toEqual([1, expect.stringContaining(said)]);
      expect(stderr).toContain(`${originOf("0")}: 3 entries, 0 exported\n`);
    }
    expect((await follow(`--to ${origin}`)).code).toBe(0);
    expect(accepted).toHaveLength(5);
  });

  test.each([
    ["2", '"2","errorMessage":"no\\u001b[1m field"', "2 of", ": no?[1m field"],
    ["more than it got", "7", "3 of", ""],
    ["no number", '"some"', "3 of", ""],
    ["a negative number", "-1", "3 of", ""],
  ])(
    "what a collector rejects (%s) is a finding and counted, and not sent again",
    async (_, rejected, said, why) => {
      const rejecting = (count: string) =>
        [200, {}, `{"partialSuccess":{"rejectedLogRecords":${count}}}`] as const;
      const { origin, accepted } = await collector(rejecting(rejected), [200], rejecting("1"));
      const { code, stdout, stderr } = await follow(`--to ${origin}`);
      expect([code, JSON.parse(stdout)]).toEqual([
        3,
        {
          log: originOf("0"),
          finding: "records-rejected",
          detail: `the collector rejected ${said} the records ${originOf("0")}#0 to ${originOf("0")}#2${why}`,
        },
      ]);
      expect(stderr).toContain(`${originOf("0")}: 3 entries, 3 exported (${said.at(0)} rejected`);
      expect(stderr).toContain(`${originOf("1")}: 2 entries, 2 exported\n`);
      await log.append("0", 1);
      const { code: later, stderr: then } = await follow(`--to ${origin}`);
      const all = 1 + Number(said.at(0));
      expect([later, then]).toEqual([3, expect.stringContaining(`4 exported (${all} rejected`)]);
      expect(accepted.map(uidOf).filter((uid) => uid === "0#0")).toHaveLength(1);
      expect(accepted).toHaveLength(6);
    },
  );

  test.each(["http://collector.example.com", "https://", "https://me:word@collector.example.com"])(
    "sends nothing to %s",
    async (place) => {
      const { code, stderr } = await follow(`--to ${place}`);
      expect([code, stderr]).toEqual([2, expect.stringContaining("--to must be an https URL")]);
    },
  );

  test("findings go on while a collector is away", async () => {
    const words = `log follow --url ${log.url} --dir ${inFolder("copy")} --stale-after 1s --every 1s`;
    const child = launchRampart([...words.split(" "), "--to", "http://127.0.0.1:1"], {});
    onTestFinished(async () => void (await child.end("SIGKILL")));
    const looks = Promise.withResolvers<void>();
    let found = 0;
    child.onLine((each) => {
      if (each.includes('"stale-checkpoint"') && ++found === 4) looks.resolve();
    });
    await looks.promise;
    expect(child.lines.join("\n")).toContain("the collector did not answer (ECONNREFUSED)");
    expect(await child.end("SIGTERM")).toBe(0);
  });

  test("sends bounded requests", async () => {
    await log.append("0", 1200);
    const { origin, accepted, requests } = await collector();
    await follow(`--to ${origin}`);
    expect(accepted).toHaveLength(1205);
    expect(requests.length).toBeGreaterThanOrEqual(4);
  });

  test("knows a collector by any spelling of its URL", async () => {
    const { origin, accepted } = await collector();
    for (const path of ["", "/", "/v1/logs", "/v1/logs/"]) await follow(`--to ${origin}${path}`);
    expect(accepted).toHaveLength(5);
  });

  test("refuses headers that are none", async () => {
    const { code } = await follow("--to http://127.0.0.1:1", { OTEL_EXPORTER_OTLP_HEADERS: "a b" });
    expect(code).toBe(2);
  });
});
