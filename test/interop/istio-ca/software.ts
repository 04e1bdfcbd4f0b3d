import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../programs.ts";
import { fromGoModule, type Software } from "../software.ts";

const server = join(import.meta.dirname, "server");

/** The program of ./server: minutes the first time, because Istio's CA comes with a client of Kubernetes. */
export async function istioCa(): Promise<Software> {
  try {
    await writeAbsentPackages();
  } catch (error) {
    return { missing: error instanceof Error ? error.message : String(error) };
  }
  return fromGoModule(server, "istio-ca");
}

/**
 * Istio names the messages of Envoy's contrib filters, to check an EnvoyFilter that holds one, and does
 * so from a version of that module which the Go module proxy does not have. No CA looks at any, so
 * empty packages stand in for them.
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
