import { writeFile } from "node:fs/promises";
import type { ControlPlane } from "./control-plane.ts";

/** Writes a kubeconfig, for the cluster's administrator unless there is another token. */
export async function writeKubeconfig(
  { server, ca, adminToken }: ControlPlane,
  path: string,
  token: string = adminToken,
): Promise<void> {
  const cluster = { server, "certificate-authority-data": Buffer.from(ca).toString("base64") };
  const config = {
    "current-context": "here",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user: { token } }],
    contexts: [{ name: "here", context: { cluster: "c", user: "u" } }],
  };
  await writeFile(path, JSON.stringify(config));
}
