import { lastingFolder } from "../../testkit/temporary-folder.ts";
import {
  notRun,
  type Outcome,
  playAll,
  playRows,
  type Row,
  reportOutcomes,
} from "../outcome-table.ts";
import { namedBy, required } from "../software.ts";
import { type ControlPlane, startControlPlane } from "./cluster/control-plane.ts";
import {
  type ControlPlanePrograms,
  controlPlanePrograms,
  findHelm,
  type KubernetesVersion,
  versions,
} from "./cluster/programs.ts";
import { type Scene, setScene } from "./cluster/scene.ts";
import { playDeployments } from "./deployments/deployment-rows.ts";
import { podRows } from "./pod-rows.ts";
import { replicaRows } from "./replica-rows.ts";
import { distributeRows, rootRows } from "./root-rows.ts";
import { namedRows } from "./rows.ts";
import { certManagerRows } from "./signers/cert-manager-rows.ts";
import { certificateRows } from "./signers/certificate-rows.ts";
import { istioCsrRows } from "./signers/istio-csr-rows.ts";
import { pageRows } from "./signers/page-rows.ts";
import { betaSignerRows, signerRows } from "./signers/signer-rows.ts";
import { storeRows } from "./store-rows.ts";
import { tokenRows } from "./token-rows.ts";
import { tutorialRows } from "./tutorial-rows.ts";

/** A part of the names of the rows to run, for work on one of them. */
const [, , part = ""] = process.argv;

/** What versions of Kubernetes differ in: tokens, and certificates and roots of pods, which began as beta. */
const versionedRows: readonly Row<Scene>[] = [
  ...tokenRows,
  ...distributeRows,
  ...signerRows,
  ...betaSignerRows,
  ...pageRows,
];

/** The other rows show an older API server nothing new: they are played there by name alone. */
const isReducedOn = (isBeta: boolean): boolean => isBeta && part === "";

const rowsOn = (isBeta: boolean): readonly Row<Scene>[] =>
  [
    ...tokenRows,
    ...podRows,
    ...distributeRows,
    ...rootRows,
    ...signerRows,
    ...(isBeta ? betaSignerRows : []),
    ...certManagerRows,
    ...certificateRows,
    ...pageRows,
    ...storeRows,
    ...replicaRows,
  ].filter((row) => !isReducedOn(isBeta) || versionedRows.includes(row));

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

async function playOn(version: KubernetesVersion): Promise<Outcome[]> {
  const participants = { client: "Rampart", server: `kube-apiserver ${version.version}` };
  console.log(`on ${participants.server}`);
  const isReduced = isReducedOn(version.isBeta);
  const programs = await controlPlanePrograms(version);
  if (typeof programs === "string") return [notRun({ ...participants, what: "all" }, programs)];
  const { server } = participants;
  const outcomes = await inCluster(programs, async (plane, folder) => {
    const istioCsr = namedBy("RAMPART_ISTIO_CSR");
    const own = "program" in istioCsr ? istioCsrRows(istioCsr.program) : [];
    const groups = [
      { client: "istio-csr", server, wanted: namedRows(own, part) },
      { ...participants, wanted: namedRows(rowsOn(version.isBeta), part) },
    ].filter(({ wanted }) => wanted.length > 0);
    const played: Outcome[] = [];
    if ("notPlayed" in istioCsr && part === "") {
      const detail = istioCsr.notPlayed;
      played.push({ client: "istio-csr", server, what: "all", result: "not played", detail });
    }
    const scene = groups.length > 0 ? [await setScene(plane, folder)] : [];
    for (const each of scene)
      for (const { wanted, ...names } of groups)
        played.push(...(await playRows(names, wanted, each)));
    return isReduced ? played : [...played, ...(await playDeployments(plane, server, part))];
  });
  if (isReduced || namedRows(tutorialRows, part).length === 0) return outcomes;
  return [...outcomes, ...(await inCluster(programs, (...of) => runTutorial(server, ...of)))];
}

async function runTutorial(
  server: string,
  plane: ControlPlane,
  folder: string,
): Promise<Outcome[]> {
  const names = { client: "kubectl and helm", server };
  return playAll(names, async () =>
    playRows(names, tutorialRows, { plane, folder, helm: await required(findHelm()) }),
  );
}

const outcomes: Outcome[] = [];
for (const version of versions) outcomes.push(...(await playOn(version)));
reportOutcomes(outcomes);
