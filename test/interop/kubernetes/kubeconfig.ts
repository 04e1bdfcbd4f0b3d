import { writeFile } from "node:fs/promises";
import type { ControlPlane } from "./control-plane.ts";

/** Writes the kubeconfig of the cluster's administrator. */
export async function writeKubeconfig(
  { server, ca, adminToken }: ControlPlane,
  path: string,
): Promise<void> {
  const cluster = { server, "certificate-authority-data": Buffer.from(ca).toString("base64") };
  const config = {
    "current-context": "here",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user: { token: adminToken } }],
    contexts: [{ name: "here", context: { cluster: "c", user: "u" } }],
  };
  await writeFile(path, JSON.stringify(config));
}
