import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";
import { type ControlPlane, startControlPlane } from "./cluster/control-plane.ts";
import {
  type ControlPlanePrograms,
  controlPlanePrograms,
  findHelm,
  version,
} from "./cluster/programs.ts";
import { type Scene, setScene } from "./cluster/scene.ts";
import { playDeployments } from "./deployments/deployment-rows.ts";
import { distributeRows } from "./distribute-rows.ts";
import { podRows } from "./pod-rows.ts";
import { replicaRows } from "./replica-rows.ts";
import { rootRows } from "./root-rows.ts";
import { namedRows, playRows, type Row } from "./rows.ts";
import { pageRows } from "./signers/page-rows.ts";
import { serviceRows } from "./signers/service-rows.ts";
import { signerRows } from "./signers/signer-rows.ts";
import { storeRows } from "./store-rows.ts";
import { tokenRows } from "./token-rows.ts";
import { tutorialRows } from "./tutorial-rows.ts";

const rows: readonly Row<Scene>[] = [
  ...tokenRows,
  ...podRows,
  ...distributeRows,
  ...rootRows,
  ...signerRows,
  ...serviceRows,
  ...pageRows,
  ...storeRows,
  ...replicaRows,
];

/** A part of the names of the rows to run, for work on one of them. */
const [, , part = ""] = process.argv;

/** Gives some work a new cluster and a folder. */
async function inCluster(
  programs: ControlPlanePrograms,
  work: (plane: ControlPlane, folder: string) => Promise<Outcome[]>,
): Promise<Outcome[]> {
  const folder = await lastingFolder();
  const plane = await startControlPlane(programs);
  // An API server outlives its suite, and its etcd.
  const interrupt = (): void => void plane.stop().finally(() => process.exit(1));
  process.once("SIGTERM", interrupt).once("SIGINT", interrupt);
  try {
    return await work(plane, folder);
  } finally {
    process.off("SIGTERM", interrupt).off("SIGINT", interrupt);
    await plane.stop();
  }
}

async function runRows(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  return [
    ...(await runNamed(plane, folder)),
    ...(await playDeployments(plane, participants.server, part)),
  ];
}

async function runNamed(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const wanted = namedRows(rows, part);
  if (wanted.length === 0) return [];
  return [{ ...participants, ...(await playRows(wanted, await setScene(plane, folder))) }];
}

async function runTutorial(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const outcome = { ...participants, client: "kubectl and helm" };
  const helm = await findHelm();
  if ("missing" in helm) return [{ ...outcome, passed: 0, faults: [], missing: helm.missing }];
  const scene = { plane, folder, helm: helm.program };
  return [{ ...outcome, ...(await playRows(tutorialRows, scene)) }];
}

const participants = { client: "Rampart", server: `kube-apiserver ${version}` };
const programs = await controlPlanePrograms();
if (typeof programs === "string") {
  report([{ ...participants, passed: 0, faults: [], missing: programs }]);
} else {
  const outcomes = await inCluster(programs, runRows);
  if (namedRows(tutorialRows, part).length > 0)
    outcomes.push(...(await inCluster(programs, runTutorial)));
  report(outcomes);
}
