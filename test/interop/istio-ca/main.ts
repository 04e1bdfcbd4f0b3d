import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startIstiod } from "../agent/xds/istiod.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { notRun, type Outcome, playRows, reportOutcomes } from "../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { scenes, startPod } from "./scenes.ts";

const names = {
  client: "rampart agent, pilot-agent's environment",
  server: "the CA of istiod of 2026-08-27",
};

async function play(program: string, folder: string): Promise<Outcome[]> {
  const mesh = await startMesh(join(folder, "mesh"));
  const { issuer } = mesh.issuerTable("");
  const istiod = await startIstiod({ program, folder, issuer });
  const pod = await startPod({ istiod, mesh }, join(folder, "pod"));
  const stage = { istiod, mesh, folder, pod };
  const rows = scenes.map(([what, act]) => [what, () => act(stage)] as const);
  const outcomes = await playRows(names, rows);
  await pod.agent.end();
  await istiod.end();
  await mesh.end();
  return outcomes;
}

const software = await prebuilt(prebuiltIstiod);
reportOutcomes(
  "program" in software
    ? await play(software.program, await lastingFolder())
    : [notRun({ ...names, what: "everything" }, software.missing)],
);
process.exit();
