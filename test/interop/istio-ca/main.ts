import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { startIstiod } from "../agent/xds/istiod.ts";
import { startMesh } from "../native-grpc/mesh.ts";
import { playAll, playRows, reportOutcomes } from "../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { required } from "../software.ts";
import { scenes, startPod } from "./scenes.ts";

const names = {
  client: "rampart agent, pilot-agent's environment",
  server: "the CA of istiod of 2026-08-27",
};

reportOutcomes(
  await playAll(names, async () => {
    const program = await required(prebuilt(prebuiltIstiod));
    const folder = await lastingFolder();
    const mesh = await startMesh(join(folder, "mesh"));
    const { issuer } = mesh.issuerTable;
    const istiod = await startIstiod({ program, folder, issuer });
    const pod = await startPod({ istiod, mesh }, join(folder, "pod"));
    const outcomes = await playRows(names, scenes, { istiod, mesh, folder, pod });
    await pod.agent.end();
    await istiod.end();
    await mesh.end();
    return outcomes;
  }),
);
process.exit();
