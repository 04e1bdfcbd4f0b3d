import { join } from "node:path";
import { messageOf } from "../../../src/foundation/errors.ts";
import { type Outcome, report } from "../outcomes.ts";
import { caScenes } from "./ca-scenes.ts";
import { chromiumPath, startChromium } from "./chromium.ts";
import { drawingScenes } from "./drawing-scenes.ts";
import { pageScenes, type Scene } from "./page-scenes.ts";
import { takePictures } from "./pictures.ts";
import { reportScenes } from "./report-scenes.ts";

const rules = "MAP *.test 127.0.0.1";
const pictures = join(import.meta.dirname, "../../../docs/pictures");

async function play(
  server: string,
  executable: string,
  scenes: Readonly<Record<string, Scene>>,
): Promise<Outcome> {
  const browser = await startChromium(executable, rules);
  const client = `Chromium ${browser.version()}`;
  const faults: string[] = [];
  for (const [what, scene] of Object.entries(scenes)) {
    await scene(browser).then(
      () => console.log(`console: ok: ${what}`),
      (error: unknown) => faults.push(`${what}: ${messageOf(error)}`),
    );
  }
  await browser.close();
  return { client, server, passed: Object.keys(scenes).length - faults.length, faults };
}

const executable = chromiumPath();
if (executable === undefined) {
  report([
    { client: "Chromium", server: "the console", passed: 0, faults: [], missing: "no Chromium" },
  ]);
} else if (process.argv.includes("--pictures")) {
  await takePictures(executable, pictures);
} else {
  report([
    await play("the page of any CA", executable, pageScenes),
    await play("rampart serve and the Worker", executable, caScenes),
    await play("the report of rampart acceptance", executable, reportScenes),
    await play("the drawings of the docs", executable, drawingScenes),
  ]);
}
