import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

test("the Worker takes 152 KiB with its libraries at most, compressed", async () => {
  const { outputFiles } = await build({
    entryPoints: ["src/worker/main.ts"],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
  });
  const [bundle] = outputFiles;
  expect(gzipSync(bundle?.contents ?? "").length / 1024).toBeLessThan(152);
});
