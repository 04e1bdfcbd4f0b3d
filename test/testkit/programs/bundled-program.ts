import { once } from "node:events";
import { rename } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import type { TestProject } from "vitest/node";
import { commonOptions, requireInModule } from "../../../dev/package/bundle.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Answers the path of the bundled program. */
    readonly programUrl: string;
  }
}

/**
 * Bundles `rampart` for the first test of a run that asks for its path. One file takes half the time of the modules
 * to start, as in the package.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  let bundled: Promise<string> | undefined;
  const server = createServer((_request, response) => {
    bundled ??= bundle();
    bundled.then(
      (path) => response.end(path),
      (error) => response.writeHead(500).end(`${error}`),
    );
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  // What a run has changed, the next bundles anew.
  project.onTestsRerun(() => {
    bundled = undefined;
  });
  project.provide("programUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return () => void server.close();
}

async function bundle(): Promise<string> {
  // As deep in the checkout as the modules that read a file of it.
  const path = join(import.meta.dirname, "out/rampart.js");
  // Another run may write its own, or read this one.
  const written = `${path}.${process.pid}`;
  await build({
    ...commonOptions,
    entryPoints: ["src/cli/main.ts"],
    platform: "node",
    format: "esm",
    banner: { js: requireInModule },
    outfile: written,
  });
  await rename(written, path);
  return path;
}
