import { X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { vectorFolders } from "../../testkit/pki/plugged-in.ts";
import { until } from "../../testkit/time/until.ts";
import { startEnvoyPair } from "../agent/envoy-pair.ts";
import { counted, SteadyLoad, statusOf } from "../agent/processes/steady-load.ts";
import { mountSecret, type SecretFiles } from "../mounted-secret.ts";
import type { Certified } from "../revocation/workloads.ts";
import { startServingCa } from "../serving-ca.ts";
import { intermediateOf, leafSeconds, shortLives, startAgent } from "./mesh.ts";

/** A step, and what it shows. */
export type Told = (what: string, act: () => Promise<string>) => Promise<void>;

/** A mesh lives under Istio's EC intermediate, from a mounted Secret, while requests go on. */
export async function playEnvoys(envoy: string, folder: string, tell: Told): Promise<void> {
  const cacerts = join(folder, "cacerts");
  await mkdir(cacerts);
  await mountSecret(cacerts, await istiosFiles());
  const imported = { AUTHORITY_ROOT: "offline", IMPORT_DIRECTORY: cacerts };
  const ca = await startServingCa(folder, {
    values: { ...shortLives, INCEPTION_DATE: undefined, ...imported },
  });
  const workloads = await Promise.all(
    (["a", "b"] as const).map((name) => startAgent(ca, folder, name)),
  );
  const [a, b] = workloads as [Certified, Certified];
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    baseId: process.pid * 4,
    a: { socket: a.socket },
    b: { socket: b.socket },
  });
  const isAnswered = async (): Promise<boolean> => (await statusOf(envoys.freshUrl)) === "200";
  await until("a first answer through both Envoys", isAnswered);
  const load = new SteadyLoad([envoys.keptUrl, envoys.freshUrl, envoys.freshUrl]);
  const istios = new X509Certificate(await readFile(join(cacerts, "ca-cert.pem")));
  await tell("Istio's EC intermediate signs, and both Envoys renew under it", async () => {
    await until("leaves of the intermediate in both Envoys", async () => {
      const now = await Promise.all(workloads.map(intermediateOf));
      return now.every(({ fingerprint256 }) => fingerprint256 === istios.fingerprint256);
    });
    await until("both Envoys to renew under it", renewedOnce(workloads), 4 * leafSeconds);
    return counted(load);
  });
  await load.stop();
  await envoys.end();
  await Promise.all(workloads.map(({ agent }) => agent.end()));
  await ca.end();
}

/** Istio's own sample, EC. Its certificates have no key identifiers, and its root is of version 1. */
async function istiosFiles(): Promise<SecretFiles> {
  const files = Object.entries(vectorFolders["istio-cacerts-ec"] ?? {});
  const texts = files.map(async ([name, vector]) => {
    return [name, await readFile(join("test/vectors", vector), "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(texts));
}

function renewedOnce(workloads: readonly Certified[]): () => Promise<boolean> {
  const seen = workloads.map(() => new Set<string | undefined>());
  return async () => {
    const states = await Promise.all(workloads.map(({ agent }) => agent.status()));
    for (const [i, { identities }] of states.entries()) seen[i]?.add(identities[0]?.notAfter);
    return seen.every(({ size }) => size > 2);
  };
}
