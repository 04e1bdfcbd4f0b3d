import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

const prebundled = [
  "@bufbuild/protobuf",
  "@connectrpc/connect",
  "@connectrpc/connect/protocol",
  "hono",
  "jose",
  "zod",
];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "node",
          environment: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/worker/**", "test/interop/**"],
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              // Nothing leaves the machine: what a test means to fetch, it serves itself.
              outboundService: () => new Response("blocked", { status: 599 }),
            },
          }),
        ],
        test: {
          name: "workerd",
          include: ["test/worker/**/*.test.ts"],
          testTimeout: 20_000,
          deps: { optimizer: { ssr: { enabled: true, include: prebundled } } },
        },
      },
    ],
  },
});
