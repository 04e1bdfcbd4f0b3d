import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { ChangeHook } from "../../../src/agent/secrets/change-hook.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

function hookOf(command: string, limitSeconds?: number) {
  const log = createEventRecorder();
  const hook = new ChangeHook(command, log, limitSeconds);
  onTestFinished(() => hook.close());
  return { hook, log };
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

/** A command that starts another and waits for it, without end. */
const endless = (folder: string) => `sleep 1000 & echo $! > ${folder}/pid; wait`;

/** The other one ignores the request to end. */
const stubborn = (folder: string) =>
  `sh -c 'trap "" TERM; sleep 1000' & echo $! > ${folder}/pid; wait`;

async function startedPid(folder: string): Promise<number> {
  await eventually(async () => expect(await readFile(`${folder}/pid`, "utf8")).toMatch(/\d\n/));
  return Number(await readFile(`${folder}/pid`, "utf8"));
}

test("ends a command that takes too long with all that it started, and says why", async () => {
  const folder = await temporaryFolder();
  const { hook, log } = hookOf(endless(folder), 1);
  hook.run();
  const pid = await startedPid(folder);
  const detail = "did not end within 1 s";
  expect(await log.until("on-change-failed")).toMatchObject({ level: "error", detail });
  await eventually(() => expect(isAlive(pid)).toBe(false));
  expect(hook.fault).toBe(`RAMPART_ON_CHANGE ${detail}`);
});

test("runs once more for all changes that come while it runs, and forgets a failure", async () => {
  const folder = await temporaryFolder();
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

test("ends a running command with the agent, whether it heeds the request or not, and starts none afterwards", async () => {
  const end = async (command: typeof endless): Promise<void> => {
    const folder = await temporaryFolder();
    const { hook, log } = hookOf(command(folder));
    hook.run();
    const pid = await startedPid(folder);
    hook.run();
    await hook.close();
    await eventually(() => expect(isAlive(pid)).toBe(false));
    hook.run();
    await hook.close();
    expect(log.operations).toEqual([]);
  };
  await Promise.all([endless, stubborn].map(end));
});
