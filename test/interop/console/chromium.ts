import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const { PATH = "", RAMPART_CHROMIUM = "" } = process.env;
const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** The Chromium of this machine: nothing is downloaded. */
export function chromiumPath(): string | undefined {
  const folders = PATH.split(delimiter);
  const files = folders.flatMap((folder) => names.map((name) => join(folder, name)));
  return [RAMPART_CHROMIUM, ...files].find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return file !== "";
  } catch {
    return false;
  }
}

/** @param rules How names are resolved, such as `MAP ca.test 127.0.0.1`. */
export function startChromium(executablePath: string, rules = ""): Promise<Browser> {
  const args = [...(rules === "" ? [] : [`--host-resolver-rules=${rules}`])];
  // Chromium's sandbox refuses to run for root.
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  return chromium.launch({ executablePath, args });
}

/** Opens a page. @returns It, and errors, violations of its policy, dialogs, and requests to another origin. */
export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults: string[] = [];
  const { origin } = new URL(url);
  page.on("pageerror", ({ message }) => faults.push(`error: ${message}`));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`console: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) faults.push(`elsewhere: ${request.url()}`);
  });
  await page.clock.install();
  await page.goto(url);
  return { page, faults };
}

/** Runs in the page: the texts of its drawings that can be seen. */
export const drawnTexts = `[...document.querySelectorAll("svg text")].filter((each) => each.checkVisibility())
  .map((each) => ({ text: each.textContent, box: each.getBoundingClientRect(), anchor: getComputedStyle(each).textAnchor }))`;

const findOverlaps = `${drawnTexts}.flatMap((a, i, all) => all.slice(i + 1).filter((b) =>
  Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > -3 &&
  Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 5).map((b) => a.text + " over " + b.text))`;

/** The texts of a page's drawings that lie over each other. */
export const overlaps = (page: Page): Promise<unknown> => page.evaluate(findOverlaps);
