import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";

const signals = import.meta.resolve("../../../src/cli/terminal/signals.ts");
const explaining = import.meta.resolve("../../../src/cli/terminal/failures.ts");
const terminal = import.meta.resolve("../../../src/cli/terminal/terminal.ts");

/** Runs JavaScript that says when it is ready, and then waits for ever. */
async function startScript(act: string) {
  const script = `
    import { explainingSignals } from ${JSON.stringify(explaining)};
    import { Signals } from ${JSON.stringify(signals)};
    import { Terminal } from ${JSON.stringify(terminal)};
    const terminal = new Terminal(process, () => new Date());
    process.on("exit", () => console.log("cleaned up"));
    ${act}
    console.log("ready");
    setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  await once(child.stdout, "data");
  return { child, exit: once(child, "exit"), said };
}

test("a signal ends a verb with a sentence, and after its clean-up", async () => {
  const { child, exit, said } = await startScript('explainingSignals(terminal, "look at it");');
  child.kill("SIGINT");
  expect(await exit).toEqual([130, null]);
  const [out, sentence] = await said;
  expect(sentence).toBe("rampart: interrupted by SIGINT: look at it\n");
  expect(out).toContain("cleaned up");
});

test("a signal ends what has not asked as ever", async () => {
  const { child, exit, said } = await startScript(
    'explainingSignals(terminal, "x")[Symbol.dispose]();',
  );
  child.kill("SIGTERM");
  expect(await exit).toEqual([null, "SIGTERM"]);
  expect((await said)[1]).toBe("");
});

test("a second signal ends a program that is ending", async () => {
  const { child, exit } = await startScript(
    'void Signals.watch().signal.then((name) => console.log("got", name));',
  );
  child.kill("SIGTERM");
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  expect(await exit).toEqual([null, "SIGTERM"]);
});
