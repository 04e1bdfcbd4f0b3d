import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sampleEntries, sampleStatus } from "../../testkit/console/sample-status.ts";
import { openPage, startChromium } from "./chromium.ts";
import { serveStatus } from "./sample-server.ts";

/** Takes the pictures of the README and of the page about policies: `node test/interop/console/main.ts --pictures`. */
export async function takePictures(executable: string, folder: string): Promise<void> {
  using server = await serveStatus({
    at: async () => sampleStatus,
    searchLog: async () => sampleEntries,
  });
  const browser = await startChromium(executable);
  await mkdir(folder, { recursive: true });
  for (const colorScheme of ["light", "dark"] as const) {
    const viewport = { width: 1200, height: 810 };
    const { page } = await openPage(browser, server.url, { colorScheme, viewport });
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
    await writeFile(join(folder, `console-${colorScheme}.webp`), Buffer.from(data, "base64"));
    const box = await page.locator("#policy").boundingBox();
    if (colorScheme === "dark" || !box) continue;
    const clip = { ...box, scale: 1 };
    const shot = { format: "webp", quality: 82, captureBeyondViewport: true, clip } as const;
    const policy = await session.send("Page.captureScreenshot", shot);
    await writeFile(join(folder, "console-policy.webp"), Buffer.from(policy.data, "base64"));
  }
  await browser.close();
}
