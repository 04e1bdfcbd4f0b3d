import * as z from "zod/mini";
import { KubernetesClient } from "../../kubernetes/client.ts";
import type { Listing } from "../../kubernetes/list-pages.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { issuedFolder } from "./object-space.ts";

/** A Secret that holds one object of a store. */
export interface RecordSecret {
  readonly key: string;
  readonly value: string;
  readonly version: string;
}

/** The types of these Secrets, by which the API server lists and watches only the records. */
const recordType = "rampart.dev/record";
export const issuedType = "rampart.dev/issued";
const typeOf = (key: string) => (key.startsWith(issuedFolder) ? issuedType : recordType);
const dataKey = "record";

const secretSchema = z.object({
  type: z.string(),
  metadata: z.object({
    name: z.string().check(z.maxLength(253)),
    resourceVersion: z.string().check(z.minLength(1), z.maxLength(4096)),
  }),
  data: z.nullish(z.record(z.string(), z.string())),
});

/**
 * The name of the Secret for a key, such as `rampart.authorities.<id>`: a DNS subdomain (RFC 1123). A part of
 * a key may have dots and end in `-`, so both are escaped.
 *
 * @throws Error for a key that has no such name.
 */
export function secretName(key: string): string {
  const parts = key.split("/").map((part) => part.replace(/[.-]/g, (char) => escapes[char] ?? ""));
  const name = ["rampart", ...parts].join(".");
  if (name.length <= 253 && namePattern.test(name)) return name;
  throw new Error("a record's name is too long for a Secret, or has other characters");
}

const escapes: Readonly<Record<string, string>> = { ".": "-d", "-": "-m" };
const namePattern = /^rampart(?:\.[a-z0-9](?:[a-z0-9]|-[dm])*)+$/;

/** The key of a Secret's name; `undefined` for every other name. */
function keyOfName(name: string): string | undefined {
  if (!namePattern.test(name)) return undefined;
  const [, ...parts] = name.split(".");
  return parts.map((part) => part.replaceAll("-d", ".").replaceAll("-m", "-")).join("/");
}

/**
 * The object in a Secret; `undefined` for every other object. A value is cut at `maximumOctets`, and a missing one is
 * empty, so that readers refuse the record instead of overlooking it.
 */
export function parseRecordSecret(
  object: unknown,
  maximumOctets: number,
): RecordSecret | undefined {
  const parsed = secretSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { type, metadata, data } = parsed.data;
  const key = keyOfName(metadata.name);
  if (key === undefined || type !== typeOf(key)) return undefined;
  // Four characters of base64 are three octets. Malformed base64 counts as empty.
  const cut = (data?.[dataKey] ?? "").slice(0, 4 * Math.ceil(maximumOctets / 3));
  const octets = Base64.parse(cut) ?? new Uint8Array();
  const value = new TextDecoder("utf-8", { ignoreBOM: true }).decode(octets);
  return { key, value, version: metadata.resourceVersion };
}

/** The Secret to create for an object, or to replace `resourceVersion` with. */
export function recordSecret(key: string, value: string, resourceVersion?: string): object {
  const labels = { "app.kubernetes.io/managed-by": "rampart" };
  return {
    apiVersion: "v1",
    kind: "Secret",
    type: typeOf(key),
    metadata: { name: secretName(key), labels, ...(resourceVersion && { resourceVersion }) },
    data: { [dataKey]: Base64.format(new TextEncoder().encode(value)) },
  };
}

/** The path of a namespace's Secrets at the API server. */
export const secretsPath = (namespace: string): string => `/api/v1/namespaces/${namespace}/secrets`;

/** The Secrets of a namespace that hold records, or issued certificates. */
export const recordListing = (namespace: string, type: string = recordType): Listing => ({
  path: `${secretsPath(namespace)}?fieldSelector=${encodeURIComponent(`type=${type}`)}`,
  pageSize: 100,
  maximumRequests: 200,
  objectOctets: KubernetesClient.maximumObjectOctets,
});

const timed = z.object({ time: z._default(z.string(), "") });
const writtenSchema = z.object({
  metadata: z.object({ name: z.string(), managedFields: z._default(z.array(timed), []) }),
});

/** The key in the metadata of a Secret, and when it was written last; `undefined` for every other object. */
export function parseWritten(object: unknown): [key: string, at: number] | undefined {
  const { metadata } = writtenSchema.safeParse(object).data ?? {};
  const key = metadata && keyOfName(metadata.name);
  if (!key) return undefined;
  return [key, Math.max(0, ...metadata.managedFields.map(({ time }) => Date.parse(time) || 0))];
}
