import { stat } from "node:fs/promises";
import { join } from "node:path";
import { type Document, parseAllDocuments } from "yaml";
import * as z from "zod/mini";
import { OperatorError } from "../../../foundation/errors.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import { unlessMissing } from "../../../program/files/small-file.ts";
import {
  caKeys,
  holdsCa,
  loadSource,
  materialOf,
  type PluggedInMaterial,
  type Source,
  utf8,
} from "./ca-entries.ts";

/** The longest PEM file: twice the size of eight RSA-4096 certificates with OpenSSL's `-text`. */
const maximumPemOctets = 256 * 1024;
const maximumManifestOctets = 4 * 1024 * 1024;

/**
 * Loads a CA from a directory, as Istio's `cacerts` and `kubernetes.io/tls` Secrets are mounted, or from the manifest
 * of such a Secret, in YAML or JSON. It verifies nothing.
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
    // Reading it as a file gives the better error.
    return false;
  }
}

/**
 * Loads a CA from a directory. Its entries must be files, because `rampart serve` would wait for the writer of a pipe.
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

const texts = z.pipe(
  z.nullish(z.record(z.string(), z.nullable(z.string()))),
  z.transform((held) => held ?? {}),
);

/** A name of an object as Kubernetes allows it, because error messages repeat it. */
const objectName = z.string().check(z.regex(/^[a-z0-9.-]{1,253}$/));

const secretSchema = z.object({
  kind: z.literal("Secret"),
  metadata: z.object({ name: objectName, namespace: z.optional(objectName) }),
  data: texts,
  stringData: texts,
});

type Secret = z.infer<typeof secretSchema>;

const kindSchema = z.object({ kind: z.string() });
const listSchema = z.object({ items: z.array(z.unknown()).check(z.maxLength(1000)) });

/**
 * Finds the CA in a manifest of a Kubernetes Secret, YAML or JSON: `istio-ca-secret`, `cacerts` or `kubernetes.io/tls`,
 * alone, among other documents or in a `List`.
 * @throws OperatorError if not exactly one Secret has a CA, or the text or a Secret is malformed.
 */
export function parseSecretManifest({ name, text }: Source): PluggedInMaterial {
  const secrets = documentsOf(name, text).flatMap((document) => secretsIn(name, document));
  const [secret, another] = secrets.filter((one) => holdsCa(keysOf(one)));
  if (!secret) throw new OperatorError(nothingIn(name, secrets));
  if (another) {
    throw new OperatorError(
      `${name}: holds more than one CA, ${titleOf(secret)} and ${titleOf(another)}: remove one of them`,
    );
  }
  const title = `${name}, ${titleOf(secret)}`;
  return materialOf(entriesOf(secret, title), title, false);
}

function documentsOf(name: string, text: string): readonly unknown[] {
  const documents = parseAllDocuments(text, { uniqueKeys: true, prettyErrors: false });
  return documents.map((document: Document) => {
    const [error] = document.errors;
    // The message would quote the text, which may be a key; the code and the position do not.
    if (error)
      throw new OperatorError(`${name}: neither YAML nor JSON (${error.code} at ${error.pos[0]})`);
    try {
      return document.toJS({ maxAliasCount: 100 }) as unknown;
    } catch {
      throw new OperatorError(`${name}: has YAML aliases that are undefined or expand too far`);
    }
  });
}

function secretsIn(name: string, document: unknown): readonly Secret[] {
  const list = listSchema.safeParse(document);
  const values = list.success ? list.data.items : [document];
  return values
    .filter((value) => kindSchema.safeParse(value).data?.kind === "Secret")
    .map((value) => {
      const secret = secretSchema.safeParse(value);
      if (secret.success) return secret.data;
      const field = secret.error.issues[0]?.path.map(String).join(".");
      throw new OperatorError(`${name}: holds a malformed Secret: ${field || "not an object"}`);
    });
}

function nothingIn(name: string, secrets: readonly Secret[]): string {
  const others = secrets.slice(0, 5).map(titleOf).join(", ");
  return secrets.length === 0
    ? `${name}: holds no Kubernetes Secret`
    : `${name}: no Secret holds ca-cert.pem and ca-key.pem, or tls.crt and tls.key; there are only ${others}`;
}

const titleOf = ({ metadata: { name, namespace } }: Secret): string =>
  `Secret ${namespace === undefined ? "" : `${namespace}/`}${name}`;

const keysOf = ({ data, stringData }: Secret): ReadonlySet<string> =>
  new Set([...Object.keys(data), ...Object.keys(stringData)]);

function entriesOf({ data, stringData }: Secret, title: string): Map<string, Source> {
  const entries = new Map<string, Source>();
  for (const key of caKeys) {
    const [encoded, plain] = [data[key], stringData[key]];
    const name = `${title}: ${key}`;
    if (encoded !== undefined && plain !== undefined) {
      throw new OperatorError(`${name}: stands in both data and stringData`);
    }
    if (encoded !== undefined) entries.set(key, { name, text: decoded(name, encoded ?? "") });
    if (plain !== undefined) entries.set(key, { name, text: plain ?? "" });
  }
  return entries;
}

function decoded(name: string, encoded: string): string {
  const octets = Base64.parse(encoded.replaceAll(/\s/g, ""));
  if (!octets) throw new OperatorError(`${name}: is not base64`);
  return utf8(name, octets);
}
