import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { drawnTexts, overlaps } from "./chromium.ts";
import { expectEqual, type Scene } from "./page-scenes.ts";

const folder = join(import.meta.dirname, "../../../docs/pictures");

/** Nobody knows a reader's fonts: that of this machine, and the widest that systems come with. */
const fonts: Readonly<Record<string, string>> = {
  "the machine's font": "",
  "a wide font": 'text { font-family: Verdana, "DejaVu Sans" !important }',
};

const findLeaving = `(() => {
  const boxes = [...document.querySelectorAll("rect")].map((each) => each.getBoundingClientRect())
    .filter(({ width, height }) => width > 30 && height > 16).toSorted((a, b) => a.width * a.height - b.width * b.height);
  return ${drawnTexts}.filter(({ box, anchor }) => {
    const x = anchor === "middle" ? (box.left + box.right) / 2 : anchor === "end" ? box.right - 1 : box.left + 1;
    const y = (box.top + box.bottom) / 2;
    const around = boxes.find((each) => x >= each.left && x <= each.right && y >= each.top && y <= each.bottom);
    const { left, right } = around ?? document.querySelector("svg").getBoundingClientRect();
    return box.left < left + 1 || box.right > right - 1;
  }).map(({ text }) => text);
})()`;

/** Every drawing of the docs, in fonts that a reader may have. */
export const drawingScenes = Object.fromEntries(
  globSync(join(folder, "*.svg")).map((file): [string, Scene] => [
    `${basename(file)}: each text stays in its box`,
    async (browser) => {
      const svg = await readFile(file, "utf8");
      const page = await browser.newPage({ viewport: { width: 1280, height: 1400 } });
      for (const [font, style] of Object.entries(fonts)) {
        await page.setContent(
          `<!doctype html><style>body{margin:0}</style>${svg}<style>${style}</style>`,
        );
        expectEqual(await page.evaluate(findLeaving), [], `${font}: texts that leave their boxes`);
        expectEqual(await overlaps(page), [], font);
      }
      await page.close();
    },
  ]),
);
