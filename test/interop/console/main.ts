import { join } from "node:path";
import { notRun, type Outcome, playRows, reportOutcomes } from "../outcome-table.ts";
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
): Promise<Outcome[]> {
  const browser = await startChromium(executable, rules);
  const client = `Chromium ${browser.version()}`;
  const outcomes = await playRows({ client, server }, Object.entries(scenes), browser);
  await browser.close();
  return outcomes;
}

const executable = chromiumPath();
if (executable === undefined) {
  const claim = { client: "Chromium", server: "the console", what: "all" };
  reportOutcomes([notRun(claim, "no Chromium")]);
} else if (process.argv.includes("--pictures")) {
  await takePictures(executable, pictures);
} else {
  reportOutcomes([
    ...(await play("the page of any CA", executable, pageScenes)),
    ...(await play("rampart serve and the Worker", executable, caScenes)),
    ...(await play("the report of rampart acceptance", executable, reportScenes)),
    ...(await play("the drawings of the docs", executable, drawingScenes)),
  ]);
}
