import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import { fromGoModule, type Software } from "../software.ts";

const server = join(import.meta.dirname, "server");

/** Builds ./server. The first build takes minutes, because Istio's CA imports Kubernetes' client. */
export async function istioCa(): Promise<Software> {
  try {
    await writeAbsentPackages();
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
  return fromGoModule(server, "istio-ca");
}

/**
 * Istio imports the messages of Envoy's contrib filters to check EnvoyFilters, from a version of that
 * module which the Go module proxy lacks. The CA uses none of them, so empty packages replace them.
 */
async function writeAbsentPackages(): Promise<void> {
  const download = ["mod", "download", "-json", "istio.io/istio"];
  const options = { folder: server, timeoutSeconds: 300 };
  const { Dir } = JSON.parse(await runWell("go", download, options)) as { Dir: string };
  const imports = await readFile(join(Dir, "pkg/config/xds/filter_types.gen.go"), "utf8");
  for (const [, path = ""] of imports.matchAll(/"github.com\/envoyproxy\/[^"]*\/contrib\/(.+)"/g)) {
    const folder = join(server, "contrib", path);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "absent.go"), "package absent\n");
  }
}
