import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { prebuiltPilotAgent } from "../agent/xds/pilot-agent.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { notRun, type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { ztunnelVariable } from "../revocation/ztunnel-scene.ts";
import { fromGoModule, namedBy } from "../software.ts";
import { playEnvoys, type Told } from "./envoy-story.ts";
import { playTwoDomains } from "./two-domains.ts";
import { playTwoRoots } from "./two-roots.ts";
import { playVault } from "./vault-story.ts";

const outcomes: Outcome[] = [];

/** Notes what a step has shown. A story ends with its first fault. */
const telling =
  (client: string, server: string): Told =>
  async (what, act) => {
    outcomes.push(await shown({ client, server, what }, act));
  };

async function playReplacements(folder: string): Promise<void> {
  const [client, server] = ["Envoy 1.40.0, twice", "rampart agent, serve"];
  const python = await pythonWithEnvoy();
  if ("missing" in python) {
    outcomes.push(notRun({ client, server, what: "intermediates are replaced" }, python.missing));
  } else {
    const own = join(folder, "envoys");
    await mkdir(own);
    const envoy = await envoyOf(python.program);
    await playEnvoys(envoy, own, telling(client, server));
    await playTwoDomains(envoy, join(folder, "domains"), telling(client, `${server}, twice`));
  }
}

/** Clusters whose istiods have roots of their own. */
async function playClusters(folder: string): Promise<void> {
  const client = "Envoy 1.40.0 twice, under pilot-agent of 2026-08-27";
  const server = "istiod of 2026-08-27, twice, and rampart serve";
  const programs = await Promise.all([
    pythonWithEnvoy(),
    prebuilt(prebuiltIstiod),
    prebuilt(prebuiltPilotAgent),
  ]);
  const missing = programs.find((each) => "missing" in each);
  const [python, istiod, pilotAgent] = programs.map((each) =>
    "program" in each ? each.program : "",
  );
  if (missing !== undefined || !python || !istiod || !pilotAgent) {
    const detail = missing && "missing" in missing ? missing.missing : "a program is missing";
    outcomes.push(notRun({ client, server, what: "two roots, one mesh" }, detail));
    return;
  }
  const own = join(folder, "clusters");
  await mkdir(own);
  const tell = telling(client, server);
  const ztunnel = namedBy(ztunnelVariable);
  const named = "program" in ztunnel ? ztunnel.program : undefined;
  const envoy = await envoyOf(python);
  await playTwoRoots({ envoy, istiod, pilotAgent, ztunnel: named }, own, tell);
  const besides = { client: "ztunnel, twice", server, what: "two roots, one mesh" };
  outcomes.push(
    "notPlayed" in ztunnel
      ? { ...besides, result: "not played", detail: `its source was read: ${ztunnel.notPlayed}` }
      : { ...besides, result: "ok", detail: "among the requests of the steps" },
  );
}

async function playUpstream(folder: string): Promise<void> {
  const [client, server] = ["rampart serve", "PKI engine of Vault 1.14.8 (OpenBao's origin)"];
  const vault = await fromGoModule(join(import.meta.dirname, "vault-pki"), "vault-pki");
  if ("missing" in vault) {
    outcomes.push(notRun({ client, server, what: "intermediates of Vault" }, vault.missing));
    return;
  }
  const own = join(folder, "vault");
  await mkdir(own);
  await playVault(vault.program, own, telling(client, server));
}

const folder = await lastingFolder();
try {
  // Envoys and Vault mostly wait for the lives of certificates to pass.
  const stories = [playReplacements(folder), playUpstream(folder), playClusters(folder)];
  for (const story of await Promise.allSettled(stories)) {
    if (story.status === "rejected") throw story.reason;
  }
} catch (error) {
  console.error(error);
  const names = { client: "the whole suite", server: "rampart", what: "to its end" };
  outcomes.push({ ...names, result: "FAILED", detail: String(error) });
}
reportOutcomes(outcomes);
process.exit();
