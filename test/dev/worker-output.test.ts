import { expect, test } from "vitest";
import { WorkerOutput } from "../../dev/worker/worker-output.ts";

function outputOf(...lines: readonly string[]): { shown: string[]; unshown: string } {
  const shown: string[] = [];
  const output = new WorkerOutput((line) => shown.push(line));
  for (const line of lines) output.take(line);
  return { shown, unshown: output.unshown() };
}

const ready = "[wrangler:info] Ready on http://127.0.0.1:8787";

test("shows the Worker's log lines from the first one on", () => {
  const { shown } = outputOf('{"event":"one"}', ready, '{"event":"two"}');
  expect(shown).toEqual(['{"event":"one"}', '{"event":"two"}']);
});

test("strips wrangler's frame and colours from an error line of the Worker", () => {
  const framed =
    '\u001b[31m✘ \u001b[41;31m[\u001b[41;97mERROR\u001b[41;31m]\u001b[0m \u001b[1m{"event":"x"}\u001b[0m';
  expect(outputOf(framed, "").shown).toEqual(['{"event":"x"}']);
});

test("holds wrangler's introduction and its access log back until it fails", () => {
  const { shown, unshown } = outputOf("⎔ Starting", ready, "[wrangler:info] GET / 200 OK (1ms)");
  expect(shown).toEqual([]);
  expect(unshown).toBe(`⎔ Starting\n${ready}\n[wrangler:info] GET / 200 OK (1ms)`);
});

test("shows exceptions and failed builds once the Worker runs", () => {
  const news = ["[wrangler:error] Error: boom", "✘ [ERROR] Build failed with 1 error:"];
  expect(outputOf(ready, ...news).shown).toEqual(news);
});

test("keeps the last hundred lines", () => {
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index}`);
  expect(outputOf(...lines).unshown).toBe(lines.slice(-100).join("\n"));
});

test("hides the output of tools that are being ended, and shows the Worker's", () => {
  const shown: string[] = [];
  const output = new WorkerOutput((line) => shown.push(line));
  output.take(ready);
  output.mute();
  output.take("fatal error: all goroutines are asleep - deadlock!");
  output.take('{"event":"last"}');
  expect(shown).toEqual(['{"event":"last"}']);
});
