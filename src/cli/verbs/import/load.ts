import { stat } from "node:fs/promises";
import { join } from "node:path";
import { OperatorError } from "../../../foundation/errors.ts";
import { unlessMissing } from "../../../program/files/small-file.ts";
import { caKeys, materialOf } from "./ca-entries.ts";
import type { PluggedInMaterial, Source } from "./plugged-in-material.ts";
import { parseSecretManifest } from "./secret-manifest.ts";
import { loadSource } from "./source-file.ts";

/** Twice the size of eight RSA-4096 certificates with OpenSSL's `-text`. */
const maximumPemOctets = 256 * 1024;
const maximumManifestOctets = 4 * 1024 * 1024;

/**
 * Loads a CA from a directory, as Istio's `cacerts` and `kubernetes.io/tls` Secrets are mounted. The manifest
 * of such a Secret, in YAML or JSON, will do as well.
 *
 * @param path The directory, or the manifest.
 * @param combinedRootsPath PEM of more roots that verifiers must accept (`root-cert-combined.pem`).
 * @throws OperatorError for an entry that is missing, empty, unreadable, too large or there twice.
 */
export async function loadPluggedIn(
  path: string,
  combinedRootsPath?: string,
): Promise<PluggedInMaterial> {
  const material = (await isDirectory(path)) ? await loadDirectory(path) : await loadManifest(path);
  if (combinedRootsPath === undefined) return material;
  const combined = await loadPresent(combinedRootsPath, maximumPemOctets);
  return { ...material, roots: [...material.roots, combined] };
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    // Reading it as a file will give the better error.
    return false;
  }
}

/**
 * Loads a CA from a directory. Its entries are files: `rampart serve` would wait for the writer of a pipe.
 *
 * @throws OperatorError as {@link loadPluggedIn}.
 */
export async function loadDirectory(path: string): Promise<PluggedInMaterial> {
  const entries = new Map<string, Source>();
  const onlyFiles = { mayBePipe: false };
  for (const key of caKeys) {
    const source = await unlessMissing(loadSource(join(path, key), maximumPemOctets, onlyFiles));
    if (source) entries.set(key, source);
  }
  return materialOf(entries, path, true);
}

async function loadManifest(path: string): Promise<PluggedInMaterial> {
  return parseSecretManifest(await loadPresent(path, maximumManifestOctets));
}

async function loadPresent(path: string, maximumOctets: number): Promise<Source> {
  const source = await loadSource(path, maximumOctets);
  if (source.text.trim() === "") throw new OperatorError(`${path}: is empty`);
  return source;
}
