import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { ChangeHook } from "../../../src/agent/secrets/change-hook.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

function hookOf(command: string, limitSeconds?: number) {
  const log = createEventRecorder();
  const hook = new ChangeHook(command, log, limitSeconds);
  onTestFinished(() => hook.close());
  return { hook, log };
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** A command that starts another and waits for it, without end. */
const endless = () => `sleep 1000 & echo $! > ${folder}/pid; wait`;

/** The other one ignores the request to end. */
const stubborn = () => `sh -c 'trap "" TERM; sleep 1000' & echo $! > ${folder}/pid; wait`;

async function startedPid(): Promise<number> {
  await eventually(async () => expect(await readFile(`${folder}/pid`, "utf8")).toMatch(/\d\n/));
  return Number(await readFile(`${folder}/pid`, "utf8"));
}

test("ends a command that takes too long with all that it started, and says why", async () => {
  const { hook, log } = hookOf(endless(), 1);
  hook.run();
  const pid = await startedPid();
  const detail = "did not end within 1 s";
  expect(await log.until("on-change-failed")).toMatchObject({ level: "error", detail });
  await eventually(() => expect(isAlive(pid)).toBe(false));
  expect(hook.fault).toBe(`RAMPART_ON_CHANGE ${detail}`);
});

test("runs once more for all changes that come while it runs, and forgets a failure", async () => {
  const command = `echo run >> ${folder}/runs; test -e ${folder}/go || exit 3`;
  const { hook, log } = hookOf(command);
  hook.run();
  await log.until("on-change-failed");
  expect(hook.fault).toBe("RAMPART_ON_CHANGE ended with 3");
  await writeFile(`${folder}/go`, "");
  for (let n = 0; n < 5; n++) hook.run();
  await log.until("on-change-run", 2);
  expect(await readFile(`${folder}/runs`, "utf8")).toBe("run\n".repeat(3));
  expect(hook.fault).toBeUndefined();
});

test.each([
  ["", endless],
  [" that ignores the request", stubborn],
])(
  "ends a running command%s with the agent, and starts none afterwards",
  async (_case, command) => {
    const { hook, log } = hookOf(command());
    hook.run();
    const pid = await startedPid();
    hook.run();
    await hook.close();
    await eventually(() => expect(isAlive(pid)).toBe(false));
    hook.run();
    await hook.close();
    expect(log.operations).toEqual([]);
  },
);
