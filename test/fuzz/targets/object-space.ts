import { FetchError } from "../../../src/foundation/fetch.ts";
import { BucketSpace } from "../../../src/node/stores/bucket-space.ts";
import {
  createSharedStore,
  type ObjectSpace,
  signerStoreIn,
} from "../../../src/node/stores/object-space.ts";
import { recordSecret, secretName } from "../../../src/node/stores/record-secret.ts";
import { createSecretSpace } from "../../../src/node/stores/secret-space.ts";
import type { Random } from "../../simulation/random.ts";
import { s3Credential } from "../../testkit/stores/s3-api.ts";
import { corpusRecords } from "../corpus/records.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { mutateText } from "../mutation/text.ts";
import { jsonIn, requireThat, type Target, unlessRefused } from "./target.ts";

const keys = [
  "authorities/00ff",
  "taints/00ff-1-2",
  "roots/0a.b-c",
  "signers/team-a/authorities/01",
];
const values = corpusRecords.map(({ value }) => value.slice(0, 200));
const pairs = keys.map((key, i) => [key, values[i % values.length] ?? ""] as const);

const recordForm = /^[a-z0-9][a-z0-9._-]*$/;

/** Loads the stores in a space, whose records must be objects of the space. @returns How many there are. */
const recordsIn = async (space: ObjectSpace): Promise<string> =>
  (await unlessRefused(async () => {
    const objects = await space.list("now");
    const all = new Set([...objects.values()].map(({ value }) => value));
    const stores = [createSharedStore(space), signerStoreIn(space)("team-a")];
    const records = (await Promise.all(stores.map((store) => store.load()))).flat();
    for (const { id, value } of records) {
      requireThat(recordForm.test(id) && all.has(value), "loads a record that the space lacks");
    }
    return `${objects.size} objects, ${records.length} records`;
  }, FetchError)) ?? "refused";

const secrets = {
  kind: "SecretList",
  metadata: { resourceVersion: "8" },
  items: pairs.map(([key, value]) => recordSecret(key, value, "7")),
};

/** The list of Secrets of an API server that is not trusted. */
export const secretSpace: Target = {
  generate: (random) => Buffer.from(mutateJson(random, secrets)),
  judge: async (octets) => {
    const json = await jsonIn(octets.toString());
    if (json === undefined) return "no JSON";
    const space = createSecretSpace(async () => json, "rampart-store");
    for (const [key, { value }] of await listOf(space)) {
      const { items } = json as { readonly items: readonly (Secret | null)[] };
      const isThere = items.some(
        (item) =>
          item?.metadata?.name === secretName(key) &&
          (value === "" || Buffer.from(item.data?.record ?? "", "base64").toString() === value),
      );
      requireThat(isThere, "reads an object that no Secret holds");
    }
    return recordsIn(space);
  },
};

interface Secret {
  readonly metadata?: { readonly name?: string };
  readonly data?: { readonly record?: string };
}

const listOf = (space: ObjectSpace) => space.list("now").catch(() => []);

const heading = "rampart object 1 4f5b0a3e-5d0e-4c0b-8a57-3a3f4c9a7a10\n";
const list = [
  '<?xml version="1.0" encoding="UTF-8"?>',
  '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>',
  "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>",
  ...keys.map(
    (key, i) =>
      `<Contents><Key>mesh%2F${key.replaceAll("/", "%2F")}</Key><ETag>&quot;${i}a&quot;</ETag></Contents>`,
  ),
  "</ListBucketResult>",
].join("\n");

const parts = ["<Contents>", "</Contents>", "<Key>", "</Key>", "<IsTruncated>true</IsTruncated>"]
  .concat([
    "<NextContinuationToken>t</NextContinuationToken>",
    "<!DOCTYPE a>",
    "<!--",
    "&a;",
    "&#0;",
  ])
  .concat(["&#x2f;", "%00", "%2F..%2F", "<a/>", "<a>".repeat(20), "mesh%2F", '""', "W/"]);

const place = {
  ...({ kind: "s3", bucket: "b", prefix: "mesh/", url: "https://s3.test/b" } as const),
  region: "eu-1",
  rootsFile: undefined,
  credentials: async () => s3Credential,
};

/** The list of a bucket, an empty line, and the octets of each object, of a service that is not trusted. */
export const bucketSpace: Target = {
  generate: (random) => {
    const body = `${heading}${oneOf(random, values)}`;
    const content = random.chance(0.5) ? body : mutateText(random, body);
    return Buffer.from(`${random.chance(0.3) ? list : changedList(random)}\n\n${content}`);
  },
  judge: async (octets) => {
    const text = octets.toString();
    const end = text.indexOf("\n\n");
    const [xml, body] = [text.slice(0, Math.max(end, 0)), text.slice(end + 2)];
    let asked = 0;
    const fetch = async (url: string): Promise<Response> => {
      requireThat(url.startsWith("https://s3.test/b"), "asks another server");
      requireThat(++asked < 500, "asks without an end");
      const isList = url.includes("list-type=2");
      return new Response(isList ? xml : body, { headers: { etag: '"0a"' } });
    };
    const space = new BucketSpace(place, fetch, () => new Date(0), { pause: async () => {} });
    for (const [key, { value }] of await listOf(space)) {
      requireThat(namesIn(xml).includes(`mesh/${key}`), "reads an object that the list lacks");
      requireThat(value === "" || body.endsWith(value), "reads another object");
    }
    return recordsIn(space);
  },
};

/** The names in a list, by a reader that knows no nesting. */
const namesIn = (xml: string): string[] =>
  [...xml.matchAll(/<[^<>]*\bKey[^<>]*>([^<]*)/g)].map(([, name = ""]) =>
    name
      .replace(/&#x([0-9a-f]+);/gi, (_, code) => String.fromCodePoint(Number.parseInt(code, 16)))
      .replaceAll("+", " ")
      .replace(/%([0-9a-f]{2})/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16))),
  );

function changedList(random: Random): string {
  if (random.chance(0.3)) return mutateText(random, list);
  const at = Math.floor(random.fraction() * list.length);
  const remove = oneOf(random, [0, 1, 5, 20]);
  return `${list.slice(0, at)}${oneOf(random, parts)}${list.slice(at + remove)}`;
}
