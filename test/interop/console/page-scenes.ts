import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { emptyStatus, sampleEntries, sampleStatus } from "../../testkit/console/sample-status.ts";
import { openPage, overlaps } from "./chromium.ts";
import { serveStatus } from "./sample-server.ts";

/** Something that a person or a stranger does with a browser. It rejects when that goes wrong. */
export type Scene = (browser: Browser) => Promise<void>;

export function expectEqual(found: unknown, expected: unknown, what: string): void {
  const [a, b] = [found, expected].map((each) => JSON.stringify(each));
  if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
}

const axe = await readFile(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** What axe finds, by WCAG 2.2 up to AA and by its best practices. */
export async function axeFindings(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const findings = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  const { violations } = findings as {
    readonly violations: readonly { id: string; nodes: readonly { html: string }[] }[];
  };
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 120)}`);
}

const sample = () =>
  serveStatus({ at: async () => sampleStatus, searchLog: async () => sampleEntries });

/** Runs in the page: the tables that are cut, and do not show it by a shadow at their edge. */
const cutUnseen = `[...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth &&
  getComputedStyle(each).backgroundImage.split("linear-gradient").length < 5).map((each) => each.ariaLabel)`;

/** Runs in the page: the two ends of each chart's axis that are not on one line. */
const brokenAxes = `[...document.querySelectorAll(".chart figcaption")].map(({ firstElementChild, lastElementChild }) =>
  [firstElementChild, lastElementChild]).filter(([a, b]) => a.getBoundingClientRect().top !== b.getBoundingClientRect().top)
  .map((ends) => ends.map((each) => each.textContent).join(" and "))`;

/** A page is for everybody, on a phone, a tablet and a desk, in light and dark. @param serve Where it is, while in scope. */
export const looksWell = (serve: () => Promise<Disposable & { readonly url: string }>) =>
  Object.fromEntries(
    [320, 390, 768, 1280].map((width): [string, Scene] => [
      `${width} pixels: axe finds nothing, the page fits the screen, and no text lies over another`,
      async (browser) => {
        using served = await serve();
        for (const colorScheme of ["light", "dark"] as const) {
          const viewport = { width, height: 900 };
          const { page, faults } = await openPage(browser, served.url, { colorScheme, viewport });
          expectEqual(await axeFindings(page), [], `axe, ${colorScheme}`);
          const content = Number(await page.evaluate("document.documentElement.scrollWidth"));
          expectEqual(content <= width, true, `${content} pixels, ${colorScheme}`);
          expectEqual(await overlaps(page), [], colorScheme);
          expectEqual(await page.evaluate(cutUnseen), [], `cut tables, ${colorScheme}`);
          expectEqual(await page.evaluate(brokenAxes), [], `axes, ${colorScheme}`);
          expectEqual(faults, [], "faults");
        }
      },
    ]),
  );

const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>"'&`;

export const pageScenes: Readonly<Record<string, Scene>> = {
  ...looksWell(sample),
  "an empty CA: axe finds nothing": async (browser) => {
    const at = async () => emptyStatus;
    using server = await serveStatus({ at, searchLog: undefined });
    const { page, faults } = await openPage(browser, server.url);
    expectEqual(await axeFindings(page), [], "axe");
    expectEqual(faults, [], "faults");
  },
  "the keyboard: a link skips to the status, and everything is reached": async (browser) => {
    using server = await sample();
    const { page } = await openPage(browser, server.url);
    await page.keyboard.press("Tab");
    expectEqual(
      await page.evaluate("document.activeElement.textContent"),
      "Skip to the status",
      "first",
    );
    await page.keyboard.press("Enter");
    expectEqual(await page.evaluate("document.activeElement.id"), "main", "after the link");
    const reached = new Set<string>();
    for (let i = 0; i < 30; i++) {
      await page.keyboard.press("Tab");
      reached.add(
        String(
          await page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.id"),
        ),
      );
    }
    for (const name of ["Authorities, table", "Issuers, table", "Entries of the log, table", "q"]) {
      expectEqual(reached.has(name), true, `${name} is reached`);
    }
  },
  "without JavaScript: the whole page, and a search": async (browser) => {
    const queries: string[] = [];
    using server = await serveStatus({
      at: async () => sampleStatus,
      searchLog: async ({ query }) => {
        queries.push(query);
        return sampleEntries;
      },
    });
    const { page } = await openPage(browser, server.url, { javaScriptEnabled: false });
    expectEqual((await page.locator("tbody tr").count()) > 15, true, "rows");
    await page.getByRole("searchbox").fill("cart & co");
    await page.getByRole("button", { name: "Search" }).click();
    expectEqual(queries.at(-1), "cart & co", "the query");
    expectEqual(await page.getByRole("searchbox").inputValue(), "cart & co", "the field");
  },
  "the page follows the CA, and keeps the focus": async (browser) => {
    let trustDomain = "before.example";
    const at = async () => ({
      ...sampleStatus,
      trustDomain,
      ready: trustDomain !== "after.example",
    });
    using server = await serveStatus({ at, searchLog: async () => sampleEntries });
    const { page, faults } = await openPage(browser, server.url);
    await page.getByRole("region", { name: "Issuers, table" }).focus();
    trustDomain = "after.example";
    await page.clock.runFor(10_500);
    await page.getByText("cannot sign").waitFor();
    expectEqual(
      await page.evaluate("document.activeElement.ariaLabel"),
      "Issuers, table",
      "the focus",
    );
    expectEqual(faults, [], "faults");
  },
  "the page says when the CA answers no more": async (browser) => {
    using server = await sample();
    const { page } = await openPage(browser, server.url);
    server[Symbol.dispose]();
    await page.clock.runFor(10_500);
    await page.getByText("The CA does not answer. What is below is old.").waitFor();
    const filter = await page.evaluate("getComputedStyle(document.querySelector('main')).filter");
    expectEqual(filter, "grayscale(1)", "the colours of what is old");
    expectEqual(await page.getByText("ready", { exact: true }).count(), 0, "what was green");
  },
  "a search while typing, whatever is typed": async (browser) => {
    const queries: string[] = [];
    using server = await serveStatus({
      at: async () => sampleStatus,
      searchLog: async ({ query }) => {
        queries.push(query);
        return { entries: [], searched: 0, total: 7 };
      },
    });
    const { page, faults } = await openPage(browser, server.url);
    const answered = page.waitForResponse((response) => response.url().includes("/?q="));
    await page.getByRole("searchbox").pressSequentially(hostile);
    await page.clock.runFor(300);
    await answered;
    await page.getByText("No entry matches.").waitFor();
    expectEqual(queries.at(-1), hostile, "the query");
    await page.reload();
    expectEqual(
      await page.getByRole("searchbox").inputValue(),
      hostile,
      "the field after a reload",
    );
    expectEqual(faults, [], "faults");
  },
};
