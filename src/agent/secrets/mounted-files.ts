import type { FileResource } from "./file-resource.ts";
import { areFilled } from "./file-secrets.ts";
import { defaultResource, rootResource } from "./identity-secrets.ts";

const workloadCredentials = "./var/run/secrets/workload-spiffe-credentials";
const certificates = "./etc/certs";

/**
 * Finds the files that a platform has mounted in place of resources. As for pilot-agent, they are a
 * complete set of workload credentials, or any of the files of `./etc/certs`.
 *
 * @param outputFolder The folder that the agent writes to. Files in it are not mounted.
 */
export async function findMountedFiles(
  outputFolder: string | undefined,
): Promise<ReadonlyMap<string, FileResource>> {
  const found = new Map<string, FileResource>();
  const allFiles = ["cert-chain.pem", "key.pem", "root-cert.pem"].map(
    (name) => `${workloadCredentials}/${name}`,
  );
  const folder = (await areFilled(...allFiles)) ? workloadCredentials : certificates;
  if (folder === outputFolder) return found;
  const [chainFile, keyFile] = [`${folder}/cert-chain.pem`, `${folder}/key.pem`];
  if (await areFilled(chainFile, keyFile)) {
    found.set(defaultResource, { kind: "certificate", chainFile, keyFile });
  }
  const file = `${folder}/root-cert.pem`;
  if (await areFilled(file)) found.set(rootResource, { kind: "roots", file });
  return found;
}
