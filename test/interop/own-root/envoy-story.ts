import type { X509Certificate } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { vectorFolders } from "../../testkit/pki/plugged-in.ts";
import { until } from "../../testkit/time/until.ts";
import { startEnvoyPair } from "../agent/envoy-pair.ts";
import { counted, SteadyLoad, statusOf } from "../agent/processes/steady-load.ts";
import { mountSecret, type SecretFiles } from "../mounted-secret.ts";
import { type Company, foundCompany } from "./company.ts";
import { certificateIn, intermediateOf, leafSeconds, MeshCa, type Workload } from "./mesh.ts";

/** The mesh that lives under the root of others. */
interface Stage {
  readonly folder: string;
  readonly cacerts: string;
  readonly ca: MeshCa;
  readonly workloads: readonly Workload[];
  readonly company: Company;
  readonly load: SteadyLoad;
}

/** A step, and what it shows. */
export type Told = (what: string, act: () => Promise<string>) => Promise<void>;

/**
 * A mesh moves in with Istio's EC intermediate, and gets another while requests go on, under a
 * new root by request and answer.
 */
export async function playEnvoys(envoy: string, folder: string, tell: Told): Promise<void> {
  const cacerts = join(folder, "cacerts");
  await mkdir(cacerts);
  await mountSecret(cacerts, await istiosFiles());
  const ca = await MeshCa.start(folder, { AUTHORITY_ROOT: "offline", IMPORT_DIRECTORY: cacerts });
  const workloads = await Promise.all([ca.startAgent("a"), ca.startAgent("b")]);
  const [a, b] = workloads;
  const baseId = process.pid * 4;
  const envoys = await startEnvoyPair({
    envoy,
    folder,
    baseId,
    a: { socket: a.socket },
    b: { socket: b.socket },
  });
  const urls = [envoys.keptUrl, envoys.freshUrl, envoys.freshUrl];
  const isAnswered = async (): Promise<boolean> => (await statusOf(envoys.freshUrl)) === "200";
  await until("a first answer through both Envoys", isAnswered);
  const load = new SteadyLoad(urls);
  const company = await foundCompany(join(folder, "company"), "Company");
  const stage = { folder, cacerts, ca, workloads, company, load };
  const istios = await certificateIn(join(cacerts, "ca-cert.pem"));
  await tell("Istio's EC intermediate signs, from a mounted Secret", () => signs(stage, istios));
  await tell("a new root: request, openssl x509 -req, install", () => byRequest(stage, "--yes"));
  await load.stop();
  await envoys.end();
  await Promise.all(workloads.map(({ agent }) => agent.end()));
  await tell("`rampart serve` logs no fault, and ends when it is told to", async () => {
    const ended = await ca.end();
    const faults = ca.lines.filter((line) => /"level":"error"|"plugged-in-refused"/.test(line));
    if (ended !== 0 || faults.length > 0) throw new Error([ended, ...faults].join());
    return `exit code ${ended}`;
  });
}

/** Istio's own sample, EC. Its certificates have no key identifiers, and its root is of version 1. */
async function istiosFiles(): Promise<SecretFiles> {
  const files = Object.entries(vectorFolders["istio-cacerts-ec"] ?? {});
  const texts = files.map(async ([name, vector]) => {
    return [name, await readFile(join("test/vectors", vector), "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(texts));
}

/** Waits until both Envoys have a leaf of this intermediate, and for one more life of a leaf. */
async function signs({ workloads, load }: Stage, expected: X509Certificate): Promise<string> {
  load.take();
  await until(
    "leaves of the new intermediate in both Envoys",
    async () => {
      const now = await Promise.all(workloads.map(intermediateOf));
      return now.every(({ fingerprint256 }) => fingerprint256 === expected.fingerprint256);
    },
    10 * leafSeconds,
  );
  await until("both Envoys to renew under it", renewedOnce(workloads), 4 * leafSeconds);
  return counted(load);
}

function renewedOnce(workloads: readonly Workload[]): () => Promise<boolean> {
  const seen = workloads.map(() => new Set<string | undefined>());
  return async () => {
    const states = await Promise.all(workloads.map(({ agent }) => agent.status()));
    for (const [i, { identities }] of states.entries()) seen[i]?.add(identities[0]?.notAfter);
    return seen.every(({ size }) => size > 2);
  };
}

/** The extensions of docs/how-to/own-root.md, word for word. */
async function documentedExtensions(): Promise<string> {
  const page = await readFile("docs/how-to/own-root.md", "utf8");
  const [, lines] = /<<'EXT'\n([^']*?)\n *EXT\n/.exec(page) ?? [];
  if (lines === undefined) throw new Error("docs/how-to/own-root.md has no block EXT");
  return lines.replaceAll(/^ +/gm, "");
}

async function byRequest(stage: Stage, ...options: readonly string[]): Promise<string> {
  const { ca, company, folder } = stage;
  const csr = await ca.authority("request");
  const chain = join(folder, "chain.pem");
  const root = await readFile(company.rootFile, "utf8");
  await writeFile(chain, (await company.sign(csr, await documentedExtensions())) + root);
  await ca.authority("install", chain, ...options);
  return signs(stage, await certificateIn(chain));
}
