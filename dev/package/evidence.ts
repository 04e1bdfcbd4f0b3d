import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Release } from "./release.ts";

/** What `npm sbom` says of an installation, as far as a release reads it: CycloneDX 1.5. */
export interface Dependencies {
  readonly metadata: { readonly component: Readonly<Record<string, unknown>> };
  readonly components: readonly Component[];
}

interface Component {
  readonly name: string;
  readonly version: string;
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
}

/**
 * The software bill of materials, in the form of CycloneDX: the libraries that npm installs beside Rampart,
 * and the Node in the executable. npm's own has a random number and the time of day.
 */
export function billOfMaterials(
  { date, commit, repository, tag }: Release,
  dependencies: Dependencies,
  nodeVersion: string,
): string {
  const node = {
    type: "platform",
    "bom-ref": `node@${nodeVersion}`,
    name: "node",
    version: nodeVersion,
    purl: `pkg:generic/node@${nodeVersion}`,
    licenses: [{ license: { id: "MIT" } }],
    properties: [{ name: "rampart:in", value: "the executable" }],
  };
  const component = {
    ...dependencies.metadata.component,
    name: "@rampart-ca/rampart",
    type: "application",
    externalReferences: [{ type: "vcs", url: repository, comment: tag }],
  };
  return asJson({
    ...dependencies,
    serialNumber: `urn:uuid:${uuidOf(commit + repository)}`,
    metadata: { ...dependencies.metadata, timestamp: date.toISOString(), component },
    components: [...dependencies.components, node],
  });
}

/** A UUID that follows from a text: RFC 9562, version 8. */
function uuidOf(text: string): string {
  const octets = createHash("sha256").update(text).digest().subarray(0, 16);
  octets.writeUInt8(0x80 | (octets.readUInt8(6) & 0x0f), 6);
  octets.writeUInt8(0x80 | (octets.readUInt8(8) & 0x3f), 8);
  return octets.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The licences of everything that the executable and the image have in them, word for word. */
export async function notices({ components }: Dependencies, tree: string): Promise<string> {
  const parts: string[] = [];
  for (const { name, version, properties = [] } of components) {
    const path = properties.find((each) => each.name === "cdx:npm:package:path")?.value ?? "";
    parts.push(`${name} ${version}\n\n${await licenceIn(join(tree, path))}`);
  }
  const node = join(dirname(process.execPath), "..");
  parts.push(`Node.js ${process.version}\n\n${await licenceIn(node)}`);
  return asNotices(parts);
}

/** A text of licences, of which each begins with the name of what is under it. */
export function asNotices(licences: readonly string[]): string {
  const first =
    "Rampart contains the software below, each part under the licence that follows its name.";
  return [first, ...licences].map((part) => `${part.trimEnd()}\n`).join(`\n${"=".repeat(80)}\n\n`);
}

/** A package without a licence of its own, as some have, says in its manifest which one it is under. */
export async function licenceIn(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) =>
    /^(?:licen[cs]e|copying|notice|copyright)/i.test(name),
  );
  const texts = await Promise.all(
    names.toSorted().map((name) => readFile(join(folder, name), "utf8")),
  );
  if (texts.length > 0) return texts.map((text) => text.trim()).join("\n\n");
  const { license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  if (typeof license !== "string") throw new Error(`${folder} has no licence`);
  return `SPDX-License-Identifier: ${license}`;
}

/** A file of a release. */
interface Checksum {
  readonly name: string;
  readonly sha256: string;
}

/** The files of a folder, by name. */
export async function checksums(folder: string): Promise<readonly Checksum[]> {
  const names = (await readdir(folder)).toSorted();
  return await Promise.all(
    names.map(async (name) => {
      const octets = await readFile(join(folder, name));
      return { name, sha256: createHash("sha256").update(octets).digest("hex") };
    }),
  );
}

/**
 * What the files were made from: an in-toto statement, version 1, with the predicate of SLSA provenance,
 * version 1. It is not signed: whoever publishes signs it.
 */
export function provenance(release: Release, made: readonly Checksum[]): string {
  const { repository, contact, tag, commit } = release;
  const page = `${repository}/blob/${tag}/docs/reference/releases.md`;
  const source = { uri: `git+${repository}@refs/tags/${tag}`, digest: { gitCommit: commit } };
  return asJson({
    _type: "https://in-toto.io/Statement/v1",
    subject: made.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: page,
        externalParameters: { repository, contact, tag },
        internalParameters: {
          node: process.version,
          platform: `${process.platform}-${process.arch}`,
        },
        resolvedDependencies: [source],
      },
      runDetails: { builder: { id: page } },
    },
  });
}

const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
