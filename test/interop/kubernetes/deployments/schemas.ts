import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../../testkit/programs/child-process.ts";
import type { KubernetesObject } from "./rendered.ts";

/** Kubernetes' types, as its module of the API has them. */
const versions = ["v0.34.13", "v0.35.10", "v0.36.6", "v0.37.2"];

const source = join(import.meta.dirname, "schema/main.go");
const cache = join(import.meta.dirname, "../../../../.interop/kubernetes-schemas");

/** Requires that each Kubernetes reads the objects, every field included, and refuses an unknown field. */
export async function checkSchemas(objects: readonly KubernetesObject[]): Promise<void> {
  const [first] = objects.filter(({ kind }) => kind === "Deployment");
  const strange = { ...first, spec: { ...first?.spec, replica: 1 } };
  const input = [...objects, strange].map((object) => JSON.stringify(object)).join("\n");
  for (const version of versions) {
    const said = await runWell(await reader(version), [], { input });
    const [refused, read, ...more] = said.trimEnd().split("\n");
    assert.match(refused ?? "", /^refused: .*unknown field "spec\.replica"/, version);
    assert.deepEqual([read, ...more], [`read: ${objects.length}`], version);
  }
}

/** Builds the reader with the types of one version, once for each of its sources. */
async function reader(version: string): Promise<string> {
  const digest = createHash("sha256")
    .update(await readFile(source))
    .digest("hex");
  const folder = join(cache, `${version}-${digest.slice(0, 12)}`);
  const program = join(folder, "reader");
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  await copyFile(source, join(folder, "main.go"));
  await writeFile(
    join(folder, "go.mod"),
    `module rampart.interop/schema

go 1.25

require (
	k8s.io/api ${version}
	k8s.io/apimachinery ${version}
)
`,
  );
  const options = { folder, environment: { GOFLAGS: "-mod=mod" }, timeoutSeconds: 600 };
  await runWell("go", ["build", "-o", "reader", "."], options);
  return program;
}
