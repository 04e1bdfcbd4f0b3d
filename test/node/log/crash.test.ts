import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { Kek, type KekRing } from "../../../src/custody/kek.ts";
import { NodeLog } from "../../../src/node/log/node-log.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";
import { published } from "./bucket-processes.ts";

const origin = "log.example.com/2026";
const program = join(import.meta.dirname, "appending.ts");

/** Entries by their index. */
type Answered = Map<number, string>;

interface Appending {
  readonly child: ChildProcess;
  readonly ended: Promise<string | undefined>;
}

/** Runs the program, and reads which entries it was answered. */
function startAppending(
  store: string,
  kek: string,
  answered: Answered,
  { length = 600, maximumBlocks = "unlimited" }: { length?: number; maximumBlocks?: string } = {},
): Appending {
  const values = [store, kek, origin, String(length), String(1_000_000 * answered.size)];
  // Without the signal, a file that grows beyond the limit is an error as on a full disk.
  const shell = `trap '' XFSZ; ulimit -f ${maximumBlocks}; exec "$@"`;
  const command = [process.execPath, "--no-warnings", program, ...values];
  const child = spawn("/bin/sh", ["-c", shell, "sh", ...command], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let refusal: string | undefined;
  const lines = createInterface(child.stdout);
  lines.on("line", (line) => {
    const [index = "", number = ""] = line.split(" ");
    if (index === "refused") refusal = line;
    else answered.set(Number(index), number);
  });
  const ended = Promise.all([once(child, "exit"), once(lines, "close")]).then(() => refusal);
  return { child, ended };
}

const until = (holds: () => boolean, { child }: Appending): Promise<void> =>
  new Promise((resolve, reject) => {
    const look = (): void => {
      if (holds()) resolve();
    };
    child.stdout?.on("data", look);
    child.once("exit", () => reject(new Error("the program ended by itself")));
    look();
  });

/** Opens the log here, publishes all of it, and reads it as a reader does. */
async function entriesIn(store: string, keks: KekRing): Promise<string[]> {
  const log = await NodeLog.open({
    storeDirectory: store,
    configuration: logConfiguration({
      origin,
      intervalSeconds: 3600,
    }),
    shard: 0,
    trustDomain: clusterLocal,
    keks: { hold: () => undefined, ring: () => keks },
    log: createEventRecorder(),
    clock: () => new Date(),
  });
  await log.end();
  return (await published(log)).map((entry) => entry.split(" ")[0] ?? "");
}

const createKeys = async (): Promise<{ hex: string; keks: KekRing }> => {
  const octets = randomBytes(32);
  return { hex: octets.toString("hex"), keks: [await Kek.import("k1", new Uint8Array(octets))] };
};

test("a process that is killed has every answered entry, and one history", async () => {
  const store = await temporaryFolder();
  const { hex, keks } = await createKeys();
  const answered: Answered = new Map();
  for (const more of [40, 300, 700]) {
    const before = answered.size;
    const appending = startAppending(store, hex, answered);
    await until(() => answered.size >= before + more, appending);
    appending.child.kill("SIGKILL");
    await appending.ended;
  }
  const entries = await entriesIn(store, keks);
  expect(answered.size).toBeGreaterThan(1000);
  for (const [index, number] of answered) expect(entries[index]).toBe(number);
});

test("a full disk refuses entries, and keeps those that it answered", async () => {
  const store = await temporaryFolder();
  const { hex, keks } = await createKeys();
  const answered: Answered = new Map();
  const appending = startAppending(store, hex, answered, { length: 60_000, maximumBlocks: "4000" });
  expect(await appending.ended).toMatch(/^refused the issuance log: /);
  expect(answered.size).toBeGreaterThan(5);
  const entries = await entriesIn(store, keks);
  for (const [index, number] of answered) expect(entries[index]).toBe(number);
});
