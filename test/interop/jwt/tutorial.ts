import { copyFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { blocksOf, isTyped, staysOpen } from "../../pages/shell-blocks.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startMoto } from "../moto.ts";
import type { Outcome } from "../outcomes.ts";
import { environmentIn } from "../pages/scenes.ts";
import { openTerminal } from "../pages/terminal.ts";
import { python } from "../software.ts";
import type { IssuingCa } from "./issuer.ts";

const page = "docs/tutorials/token-for-aws.md";

/** What each typed block must print, in their order; the agent prints that it has written the token. */
const answers = [
  /"issuer":"https:.*"kid":/s,
  /"OpenIDConnectProviderArn": "arn:/,
  /"RoleName": "cart"/,
  /"files-written"/,
  /"aud":\["sts\.amazonaws\.com"\].*\n600\n$/s,
  /"SessionToken": "/,
];

/** Types the tutorial, with AWS's own command line and moto as AWS: it verifies no token. */
export async function typeTutorial({ ca }: IssuingCa): Promise<Outcome> {
  const folder = await lastingFolder();
  const outcome = { client: "the reader", server: page, passed: 0, faults: [] };
  const tools = await python("aws", ["awscli==1.46.3", "moto[server]==5.2.5"]);
  if ("missing" in tools) return { ...outcome, ...tools };
  const moto = await startMoto(tools.program, folder);
  await copyFile(await ca.tokenFile("shop:cart"), join(folder, "token"));
  const policy = blocksOf(page).find(({ language }) => language === "json");
  await writeFile(join(folder, "trust.json"), policy?.text ?? "");
  const { PATH, ...others } = await environmentIn(folder);
  const environment = {
    ...others,
    PATH: `${dirname(tools.program)}:${PATH}`,
    CA: ca.url,
    AWS_ENDPOINT_URL: moto.origin,
    AWS_DEFAULT_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "AKIAINTEROP",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
  const faults: string[] = [];
  const terminal = await openTerminal(folder, environment);
  const typed = blocksOf(page).filter((block) => block.language === "sh" && isTyped(block));
  for (const [i, { text, mark }] of typed.entries()) {
    const answer = answers[i] ?? /$^/;
    const typing = mark === staysOpen ? terminal.leaveOpen(text, answer) : terminal.type(text);
    const said = await typing.catch(String);
    if (!answer.test(said)) faults.push(`${page}: block ${i + 1} printed ${said.slice(-500)}`);
  }
  await Promise.all([moto.end(), terminal.end()]);
  if (typed.length !== answers.length) faults.push(`${page}: ${typed.length} blocks`);
  return { ...outcome, passed: typed.length - faults.length, faults };
}
