import { execFileSync } from "node:child_process";
import { mkdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import { configurationReasons } from "../../src/program/internal/configuration-status.ts";
import {
  fileState,
  pipeState,
  type Reconfigure,
  RunningConfiguration,
  type Values,
} from "../../src/program/running-configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";
import { createVirtualTime } from "../testkit/time/virtual-time.ts";

/** A file whose content and state the test sets, read by a program that takes on what it is told to. */
async function follow(reconfigure: Reconfigure<Values> = async () => []) {
  const time = createVirtualTime(new Date("2026-11-22T12:00:00Z"));
  const log = createEventRecorder();
  const file = { state: "1", values: { PORT: 1, CLUSTERS: ["a", "b"] } as Values, reads: 0 };
  const { running } = await RunningConfiguration.open<Values>(
    {
      state: async () => file.state,
      read: async () => {
        file.reads++;
        return file.values;
      },
      parse: (values) => {
        const { FAULTS: faults, PORT, NEEDS } = values;
        if (Array.isArray(faults)) throw new ConfigurationError(faults);
        if (PORT === 1 && NEEDS === 2) {
          throw new ConfigurationError(["NEEDS: must not exceed PORT"]);
        }
        return values;
      },
      restartKeys: ["PORT", "STORE"],
    },
    { log, clock: time.clock, pause: time.pause },
  );
  const applied: Values[] = [];
  const ending = new AbortController();
  const following = running.follow(async (next) => {
    const inPart = await reconfigure(next);
    applied.push(next);
    return inPart;
  }, ending.signal);
  onTestFinished(async () => {
    ending.abort();
    await following;
  });

  const isWaiting = () => eventually(() => expect(time.pauses()).toEqual([1000]));

  /** Lets the program look at the file this often. */
  async function look(times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      await isWaiting();
      time.pass(1);
    }
    await isWaiting();
  }
  const put = (values: Values, state: string = crypto.randomUUID()): void => {
    file.values = values;
    file.state = state;
  };
  const events = (name?: string): unknown[] =>
    log.operations
      .filter(({ event }) => name === undefined || event === name)
      .map(({ event, detail }) => [event, detail]);
  return { time, log, file, running, applied, look, put, events, following, ending };
}

test("takes on a changed file once, and says which keys have changed", async () => {
  const { applied, look, put, events, running } = await follow();
  await look(4);
  put({ PORT: 1, CLUSTERS: ["b"] });
  await look(8);
  expect(applied).toEqual([{ PORT: 1, CLUSTERS: ["b"] }]);
  expect(events()).toEqual([
    ["configuration-reloaded", "the configuration was read again, with other values of CLUSTERS"],
  ]);
  expect(running.status()).toMatchObject({ generation: 2, reloads: { applied: 1, refused: 0 } });
});

test("takes on nothing while the file is as it was, whatever its name points to", async () => {
  const { applied, look, put, file, events } = await follow();
  put(file.values);
  await look(6);
  expect(applied).toEqual([]);
  expect(events()).toEqual([]);
});

test("reads no file that changes from look to look, because it may be half written", async () => {
  const { file, look, put, applied } = await follow();
  await look(4);
  const { reads } = file;
  for (let i = 0; i < 5; i++) {
    put({ PORT: 1, CLUSTERS: ["half"] });
    await look(1);
  }
  expect(file.reads).toBe(reads);
  put({ PORT: 1, CLUSTERS: ["whole"] });
  await look(6);
  expect(applied).toEqual([{ PORT: 1, CLUSTERS: ["whole"] }]);
});

test("takes on no content that changed while it was read", async () => {
  const { file, look, put, applied } = await follow();
  await look(4);
  put({ PORT: 1, CLUSTERS: ["half"] });
  let values: Values = file.values;
  Object.defineProperty(file, "values", {
    get: () => {
      // The writer goes on during the first read.
      const [now] = [values];
      if (values !== whole) {
        values = whole;
        file.state = "later";
      }
      return now;
    },
  });
  const whole = { PORT: 1, CLUSTERS: ["whole"] };
  await look(8);
  expect(applied).toEqual([whole]);
});

test("changes nothing for a file with faults, and logs each of them once", async () => {
  const { applied, look, put, events, running } = await follow();
  put({ FAULTS: ["ISSUERS: is required", "CRL: must be on or off"] });
  await look(40);
  expect(applied).toEqual([]);
  expect(events()).toEqual([
    ["configuration-refused", "ISSUERS: is required"],
    ["configuration-refused", "CRL: must be on or off"],
  ]);
  expect(running.status()).toMatchObject({ generation: 1, reloads: { applied: 0, refused: 1 } });
  expect(configurationReasons(running.status())).toEqual([
    "the configuration file is not in force: ISSUERS: is required",
    "the configuration file is not in force: CRL: must be on or off",
  ]);
});

test("says when a faulty file is correct again, with the old values or others", async () => {
  const { look, put, file, running, log, applied } = await follow();
  const { values } = file;
  put({ FAULTS: ["ISSUERS: is required"] });
  await look(4);
  put(values);
  await look(4);
  expect(applied).toEqual([]);
  expect(log.operations.at(-1)).toMatchObject({ event: "configuration-reloaded", generation: 1 });
  expect(configurationReasons(running.status())).toEqual([]);
});

test("keeps a key that needs a restart, applies the others, and says so once", async () => {
  const { look, put, applied, running, events } = await follow();
  put({ PORT: 2, STORE: "new", CLUSTERS: ["b"] });
  await look(6);
  expect(applied).toEqual([{ PORT: 1, CLUSTERS: ["b"] }]);
  put({ STORE: "new", CLUSTERS: ["c"] });
  await look(6);
  expect(events("configuration-needs-restart")).toEqual([
    [
      "configuration-needs-restart",
      "keys of the configuration have changed that need a restart: PORT, STORE",
    ],
  ]);
  expect(configurationReasons(running.status())).toHaveLength(1);
  put({ PORT: 1, CLUSTERS: ["c"] });
  await look(6);
  expect(configurationReasons(running.status())).toEqual([]);
});

test("refuses a file that is correct only with a key that needs a restart, and names the key", async () => {
  const { look, put, applied, events } = await follow();
  put({ PORT: 2, NEEDS: 2 });
  await look(6);
  expect(applied).toEqual([]);
  expect(events()).toEqual([
    ["configuration-refused", "NEEDS: must not exceed PORT (until a restart with the former PORT)"],
  ]);
});

test("remembers of which keys a part needs a restart", async () => {
  const { look, put, running, file } = await follow(async () => ["SIGNERS"]);
  put({ PORT: 1, CLUSTERS: [] });
  await look(6);
  put(file.values);
  await look(6);
  expect(running.status().awaitingRestart).toEqual(["SIGNERS"]);
});

test("tries again what the program could not take on, and logs that once", async () => {
  let isThere = false;
  const { look, put, applied, events, running } = await follow(async () => {
    if (!isThere) throw new ConfigurationError(["CLUSTER_CREDENTIAL_A: does not exist"]);
    return [];
  });
  put({ PORT: 1, CLUSTERS: ["a"] });
  await look(25);
  expect(applied).toEqual([]);
  expect(events()).toEqual([["configuration-refused", "CLUSTER_CREDENTIAL_A: does not exist"]]);
  isThere = true;
  await look(12);
  expect(applied).toEqual([{ PORT: 1, CLUSTERS: ["a"] }]);
  expect(running.status()).toMatchObject({ generation: 2, faults: [] });
});

test("reads at once when it is asked to, and takes on even what has not changed", async () => {
  const { applied, running, log, look } = await follow();
  await look(1);
  running.ask();
  await log.until("configuration-reloaded");
  expect(applied).toHaveLength(1);
  expect(running.status().generation).toBe(1);
});

test("reads once more if it is asked during a reload, however often", async () => {
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const { running, applied, log } = await follow(async () => {
    begun.resolve();
    await goOn.promise;
    return [];
  });
  running.ask();
  await begun.promise;
  for (let i = 0; i < 5; i++) running.ask();
  expect(applied).toEqual([]);
  goOn.resolve();
  await log.until("configuration-reloaded", 2);
  expect(applied).toHaveLength(2);
});

test("reads no pipe a second time, and goes on without a fault", async () => {
  const { file, look, put, running, log } = await follow();
  const { reads } = file;
  put({ FAULTS: ["read"] }, pipeState);
  await look(6);
  running.ask();
  expect(await log.until("configuration-refused")).toMatchObject({
    level: "warning",
    detail: "a pipe is read at the start alone",
  });
  expect(file.reads).toBe(reads);
  expect(running.status().faults).toEqual([]);
});

test("ends only when the reload under way has ended", async () => {
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const { running, ending, following, applied } = await follow(async () => {
    begun.resolve();
    await goOn.promise;
    return [];
  });
  running.ask();
  await begun.promise;
  ending.abort();
  goOn.resolve();
  await following;
  expect(applied).toHaveLength(1);
});

test("the state of a file differs when it is written, replaced, cut off or removed, and not otherwise", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "rampart.toml");
  await writeFile(path, "A = 1\n");
  const states = [await fileState(path)];
  expect(await fileState(path)).toBe(states[0]);
  await writeFile(`${path}.new`, "A = 1\n");
  await rename(`${path}.new`, path);
  states.push(await fileState(path));
  await truncate(path, 3);
  states.push(await fileState(path));
  await rm(path);
  states.push(await fileState(path));
  expect(new Set(states).size).toBe(states.length);
  expect(states.at(-1)).toBe("ENOENT");
});

test("the state of a file follows the links of a mounted ConfigMap, whose folder is swapped as a whole", async () => {
  const folder = await temporaryFolder();
  for (const version of ["..1", "..2"]) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, "rampart.toml"), `A = "${version}"\n`);
  }
  await symlink("..1", join(folder, "..data"));
  await symlink("..data/rampart.toml", join(folder, "rampart.toml"));
  const before = await fileState(join(folder, "rampart.toml"));
  await symlink("..2", join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  expect(await fileState(join(folder, "rampart.toml"))).not.toBe(before);
});

test("the state of a file knows a pipe, a link that leads nowhere and a path through a file", async () => {
  const folder = await temporaryFolder();
  execFileSync("mkfifo", [join(folder, "pipe")]);
  expect(await fileState(join(folder, "pipe"))).toBe(pipeState);
  await symlink("nowhere", join(folder, "link"));
  expect(await fileState(join(folder, "link"))).toBe("ENOENT");
  await writeFile(join(folder, "file"), "");
  expect(await fileState(join(folder, "file", "rampart.toml"))).toBe("ENOTDIR");
});
