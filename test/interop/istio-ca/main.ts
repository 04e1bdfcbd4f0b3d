import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, reportOutcomes } from "../agent/outcome-table.ts";
import { IstioCa } from "./istio-ca.ts";
import { scenes, startPod } from "./scenes.ts";
import { istioCa } from "./software.ts";

const names = {
  client: "rampart agent, pilot-agent's environment",
  server: "Istio's CA server code, main of 2026-08-27 (no whole istiod)",
};

async function play(program: string, folder: string): Promise<Outcome[]> {
  const ca = await IstioCa.start(program, folder);
  const pod = await startPod(ca, join(folder, "pod"));
  const outcomes: Outcome[] = [];
  for (const [what, act] of scenes) {
    const outcome = await act({ ca, folder, pod }).then(
      (detail): Outcome => ({ ...names, what, result: "ok", detail }),
      (error: unknown): Outcome => ({ ...names, what, result: "FAILED", detail: String(error) }),
    );
    console.error(`${outcome.result}: ${what}`);
    outcomes.push(outcome);
  }
  await pod.agent.end();
  await ca.end();
  return outcomes;
}

const software = await istioCa();
const folder = await lastingFolder();
await mkdir(join(folder, "pod"));
const what = "everything";
const outcomes =
  "program" in software
    ? await play(software.program, folder)
    : [{ ...names, what, result: "NOT RUN" as const, detail: software.missing }];
reportOutcomes(outcomes);
process.exit();
