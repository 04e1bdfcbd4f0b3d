import { Obstacle } from "../obstacle.ts";
import type { PluggedInMaterial } from "./plugged-in-material.ts";

/**
 * Reads a CA from where people keep it: a directory as Istio's `cacerts` or as `kubernetes.io/tls`
 * Secrets are mounted, or the manifest of such a Secret in YAML or JSON.
 *
 * @param path The directory, or the manifest.
 * @param combinedRootsPath PEM of more roots that verifiers must accept (`root-cert-combined.pem`).
 * @throws Obstacle for what is missing, empty, unreadable, too large or there twice.
 */
export async function loadPluggedIn(
  path: string,
  combinedRootsPath?: string,
): Promise<PluggedInMaterial> {
  throw new Obstacle(`cannot read ${path} ${combinedRootsPath ?? ""} yet`);
}
