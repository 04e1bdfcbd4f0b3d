import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { blocksOf, isTyped, staysOpen } from "../../pages/shell-blocks.ts";
import { type Child, run, startChild } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import type { Outcome } from "../outcomes.ts";
import { environmentIn } from "../pages/scenes.ts";
import type { IssuingCa } from "./issuer.ts";

const page = "docs/tutorials/token-for-aws.md";

/** What each typed block must print, in their order; the agent prints that it has written the token. */
const answers = [
  /"issuer":"https:.*"kid":/s,
  /"files-written"/,
  /"aud":\["sts\.amazonaws\.com"\].*\n600\n$/s,
];

/** Types the tutorial up to the calls of AWS, whose account nobody has here. */
export async function typeTutorial({ ca }: IssuingCa): Promise<Outcome> {
  const folder = await lastingFolder();
  await copyFile(await ca.tokenFile("shop:cart"), join(folder, "token"));
  const environment = { ...(await environmentIn(folder)), CA: ca.url };
  const faults: string[] = [];
  const open: Child[] = [];
  const typed = blocksOf(page).filter((block) => block.language === "sh" && isTyped(block));
  for (const [i, { text, mark }] of typed.entries()) {
    const words = ["-ec", text];
    const said =
      mark === staysOpen ? await saidBy(startOpen(words), answers[i]) : await answerTo(words);
    if (!answers[i]?.test(said)) faults.push(`${page}: block ${i + 1} printed ${said.slice(-500)}`);
  }
  await Promise.all(open.map((child) => child.end()));
  return { client: "the reader", server: page, passed: typed.length - faults.length, faults };

  function startOpen(words: readonly string[]): Child {
    const child = startChild("bash", words, { folder, environment, isGroup: true });
    open.push(child);
    return child;
  }

  async function answerTo(words: readonly string[]): Promise<string> {
    const { stdout, stderr, exitCode } = await run("bash", words, { folder, environment });
    return exitCode === 0 ? stdout : `${stdout}${stderr}`;
  }
}

/** What the program has printed once it has printed this, or after twenty seconds. */
async function saidBy(child: Child, awaited: RegExp | undefined): Promise<string> {
  for (let i = 0; i < 100 && !awaited?.test(child.lines.join("\n")); i++) await sleep(200);
  return child.lines.join("\n");
}
