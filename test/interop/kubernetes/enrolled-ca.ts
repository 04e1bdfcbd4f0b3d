import { join } from "node:path";
import { parse as parseToml } from "smol-toml";
import { readKubeconfig } from "../../../src/cli/session/kubeconfig.ts";
import {
  enrol,
  formatEnrolment,
  parseIssuerDocuments,
} from "../../../src/cli/verbs/cluster/cluster-enrol.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { writeKubeconfig } from "./cluster/kubeconfig.ts";
import type { Scene } from "./cluster/scene.ts";

const credential = "CLUSTER_CREDENTIAL_PROD_1";

/** Starts a CA with the table that `rampart cluster enrol` prints for the kubeconfig of this cluster. */
export async function enrolledCa(
  { plane, folder, access }: Scene,
  review?: "instead-of-keys",
): Promise<RunningCa> {
  const path = join(folder, "kubeconfig");
  await writeKubeconfig(plane, path);
  const { read, server, ca } = await readKubeconfig(path, undefined, process.env);
  const shown = parseIssuerDocuments(
    await read("/.well-known/openid-configuration"),
    await read("/openid/v1/jwks"),
  );
  const kubernetes = review && { server, ca, review };
  const settings = {
    platform: "serve" as const,
    cluster: "prod-1",
    audiences: ["istio-ca"],
    kubernetes,
  };
  const nowhere = async (): Promise<never> => {
    throw new Error("the issuer is a name of the inside: nobody asks");
  };
  const toml = formatEnrolment(
    await enrol(shown, settings, { anywhere: nowhere, public: nowhere }),
    "serve",
  );
  const { ISSUERS } = parseToml(toml) as unknown as { ISSUERS: Record<string, unknown>[] };
  const running = await startCa(
    {
      ISSUERS: ISSUERS.map((table) => ({
        ...table,
        trusted_node_accounts: ["istio-system/ztunnel"],
        ...(!review && { node_reach: "anywhere" }),
      })),
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      CRL: "on",
      [credential]: access,
    },
    { hasNoNamesake: true },
  );
  passTo(running, new Date());
  await running.found();
  return running;
}

function passTo(running: RunningCa, instant: Date): void {
  running.pass((instant.getTime() - running.now().getTime()) / 1000);
}
