import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoProxy } from "../software.ts";
import { type ControlPlane, startControlPlane } from "./control-plane.ts";
import { playDeployments } from "./deployment-rows.ts";
import { distributeRows } from "./distribute-rows.ts";
import { pageRows } from "./page-rows.ts";
import { podRows } from "./pod-rows.ts";
import { type ControlPlanePrograms, controlPlanePrograms, version } from "./programs.ts";
import { replicaRows } from "./replica-rows.ts";
import { rootRows } from "./root-rows.ts";
import { type Scene, setScene } from "./scene.ts";
import { serviceRows } from "./service-rows.ts";
import { signerRows } from "./signer-rows.ts";
import { storeRows } from "./store-rows.ts";
import { tokenRows } from "./token-rows.ts";
import { followTutorial, tutorial } from "./tutorial.ts";

const rows: readonly (readonly [string, (scene: Scene) => Promise<void>])[] = [
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

async function faultsOf(name: string, work: Promise<void>): Promise<string[]> {
  try {
    await work;
    console.log(`ok      ${name}`);
    return [];
  } catch (error) {
    console.log(`FAILED  ${name}`);
    return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** A part of the names of the rows to run, for work on one of them. */
const [, , part = ""] = process.argv;

/** Gives some work a new cluster and a folder. */
async function inCluster(
  programs: ControlPlanePrograms,
  work: (plane: ControlPlane, folder: string) => Promise<Outcome[]>,
): Promise<Outcome[]> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-interop-"));
  const plane = await startControlPlane(programs);
  // An API server outlives its suite, and its etcd.
  const interrupt = (): void => void plane.stop().finally(() => process.exit(1));
  process.once("SIGTERM", interrupt).once("SIGINT", interrupt);
  try {
    return await work(plane, folder);
  } finally {
    process.off("SIGTERM", interrupt).off("SIGINT", interrupt);
    await plane.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function runRows(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const scene = await setScene(plane, folder);
  const faults: string[] = [];
  const wanted = rows.filter(([name]) => name.includes(part));
  for (const [name, work] of wanted) faults.push(...(await faultsOf(name, work(scene))));
  const outcome = { ...participants, passed: wanted.length - faults.length, faults };
  return [outcome, ...(await playDeployments(plane, participants.server, part))];
}

/** The tutorial begins in a cluster that has nothing yet. */
async function runTutorial(plane: ControlPlane, folder: string): Promise<Outcome[]> {
  const outcome = { ...participants, client: "kubectl and helm" };
  const helm = await fromGoProxy("helm.sh/helm/v3/cmd/helm@v3.22.0");
  if ("missing" in helm) return [{ ...outcome, passed: 0, faults: [], missing: helm.missing }];
  const faults = await faultsOf(tutorial, followTutorial(plane, folder, helm.program));
  return [{ ...outcome, passed: 1 - faults.length, faults }];
}

const participants = { client: "Rampart", server: `kube-apiserver ${version}` };
const programs = await controlPlanePrograms();
if (typeof programs === "string") {
  report([{ ...participants, passed: 0, faults: [], missing: programs }]);
} else {
  const outcomes = await inCluster(programs, runRows);
  if (tutorial.includes(part)) outcomes.push(...(await inCluster(programs, runTutorial)));
  report(outcomes);
}
