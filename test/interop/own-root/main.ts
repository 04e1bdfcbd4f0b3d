import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { prebuiltPilotAgent } from "../agent/xds/pilot-agent.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { ztunnelVariable } from "../revocation/ztunnel-scene.ts";
import { fromGoModule, namedBy, required } from "../software.ts";
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

const envoyProgram = async (): Promise<string> => envoyOf(await required(pythonWithEnvoy()));

async function playReplacements(folder: string): Promise<void> {
  const [client, server] = ["Envoy 1.40.0, twice", "rampart agent, serve"];
  const own = join(folder, "envoys");
  await mkdir(own);
  const envoy = await envoyProgram();
  await playEnvoys(envoy, own, telling(client, server));
  await playTwoDomains(envoy, join(folder, "domains"), telling(client, `${server}, twice`));
}

/** Clusters whose istiods have roots of their own. */
async function playClusters(folder: string): Promise<void> {
  const client = "Envoy 1.40.0 twice, under pilot-agent of 2026-08-27";
  const server = "istiod of 2026-08-27, twice, and rampart serve";
  const istiod = await required(prebuilt(prebuiltIstiod));
  const pilotAgent = await required(prebuilt(prebuiltPilotAgent));
  const own = join(folder, "clusters");
  await mkdir(own);
  const tell = telling(client, server);
  const ztunnel = namedBy(ztunnelVariable);
  const named = "program" in ztunnel ? ztunnel.program : undefined;
  const envoy = await envoyProgram();
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
  const vault = fromGoModule(join(import.meta.dirname, "vault-pki"), "vault-pki");
  const own = join(folder, "vault");
  await mkdir(own);
  await playVault(await required(vault), own, telling(client, server));
}

const folder = await lastingFolder();
// Envoys and Vault mostly wait for the lives of certificates to pass.
const stories = [playReplacements, playUpstream, playClusters].map((play) =>
  shown({ client: "the whole suite", server: "rampart", what: play.name }, () => play(folder)),
);
outcomes.push(...(await Promise.all(stories)).filter(({ result }) => result !== "ok"));
reportOutcomes(outcomes);
process.exit();
