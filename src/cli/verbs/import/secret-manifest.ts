import { type Document, parseAllDocuments } from "yaml";
import * as z from "zod/mini";
import { OperatorError } from "../../../foundation/errors.ts";
import { parseBase64 } from "../../../pki/encoding/base64.ts";
import { caKeys, holdsCa, materialOf } from "./ca-entries.ts";
import type { PluggedInMaterial, Source } from "./plugged-in-material.ts";
import { utf8 } from "./source-file.ts";

const texts = z.pipe(
  z.nullish(z.record(z.string(), z.nullable(z.string()))),
  z.transform((held) => held ?? {}),
);

/** Kubernetes' form of a name, because error messages repeat it. */
const objectName = z.string().check(z.regex(/^[a-z0-9.-]{1,253}$/));

const secretForm = z.object({
  kind: z.literal("Secret"),
  metadata: z.object({ name: objectName, namespace: z.optional(objectName) }),
  data: texts,
  stringData: texts,
});

type Secret = z.infer<typeof secretForm>;

const kindForm = z.object({ kind: z.string() });
const listForm = z.object({ items: z.array(z.unknown()).check(z.maxLength(1000)) });

/**
 * The CA in a manifest of a Kubernetes Secret, YAML or JSON: `istio-ca-secret`, `cacerts` or
 * `kubernetes.io/tls`, alone, among other documents or in a `List`.
 *
 * @throws OperatorError when there is not exactly one Secret that holds a CA.
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
  const list = listForm.safeParse(document);
  const values = list.success ? list.data.items : [document];
  return values
    .filter((value) => kindForm.safeParse(value).data?.kind === "Secret")
    .map((value) => {
      const secret = secretForm.safeParse(value);
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
  const octets = parseBase64(encoded.replaceAll(/\s/g, ""));
  if (!octets) throw new OperatorError(`${name}: is not base64`);
  return utf8(name, octets);
}
