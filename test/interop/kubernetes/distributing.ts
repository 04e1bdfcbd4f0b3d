import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { EventLog } from "../../../src/ca/issuance/event-log.ts";
import { DistributeConfiguration, distribute } from "../../../src/node/distribute/distribute.ts";
import type { Scene } from "./cluster/scene.ts";

/** Runs `rampart distribute` in the cluster of the scene, with this token there, while the work runs. */
export async function distributing<T>(
  { plane, folder }: Scene,
  token: string,
  values: object,
  work: () => Promise<T>,
): Promise<T> {
  const [caFile, tokenFile] = [join(folder, "ca.crt"), join(folder, "distribute-token")];
  await writeFile(caFile, plane.ca);
  await writeFile(tokenFile, token);
  const configuration = DistributeConfiguration.parse(
    {
      ...values,
      KUBERNETES_SERVER: plane.server,
      KUBERNETES_CA_FILE: caFile,
      KUBERNETES_TOKEN_FILE: tokenFile,
      MONITORING_LISTEN: "127.0.0.1:0",
    },
    {},
  );
  const clock = () => new Date();
  const log = EventLog.create(clock, (line) => console.log(line));
  const listener = await distribute(configuration, { log, clock });
  try {
    return await work();
  } finally {
    await listener.close(1000);
  }
}
