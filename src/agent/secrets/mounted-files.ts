import type { FileResource } from "./file-resource.ts";
import { areFilled } from "./file-secrets.ts";
import { defaultResource, rootResource } from "./held-secrets.ts";

const mounted = "./var/run/secrets/workload-spiffe-credentials";
const implicit = "./etc/certs";

/**
 * The files that stand in for resources where a platform has mounted them, as pilot-agent finds them:
 * a whole set of workload credentials, or any of the files of `./etc/certs`.
 *
 * @param outputFolder Where we write ourselves: what is found there is ours.
 */
export async function findMountedFiles(
  outputFolder: string | undefined,
): Promise<ReadonlyMap<string, FileResource>> {
  const found = new Map<string, FileResource>();
  const whole = ["cert-chain.pem", "key.pem", "root-cert.pem"].map((name) => `${mounted}/${name}`);
  const folder = (await areFilled(...whole)) ? mounted : implicit;
  if (folder === outputFolder) return found;
  const [chainFile, keyFile] = [`${folder}/cert-chain.pem`, `${folder}/key.pem`];
  if (await areFilled(chainFile, keyFile)) {
    found.set(defaultResource, { kind: "certificate", chainFile, keyFile });
  }
  const file = `${folder}/root-cert.pem`;
  if (await areFilled(file)) found.set(rootResource, { kind: "roots", file });
  return found;
}
