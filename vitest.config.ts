import { randomBytes } from "node:crypto";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import {
  apiCredentialName,
  issuerTables,
  reviewedTables,
} from "./test/contract/service-under-test.ts";
import { FileOrder } from "./test/file-order.ts";
import { wranglerToml } from "./test/testkit/programs/edge-worker.ts";
import { leaveShell } from "./test/testkit/programs/environment.ts";
import { hangMilliseconds } from "./test/testkit/time/hang-limit.ts";
import { createInternet, reviewingApi, stormIssuer } from "./test/worker/runtime/internet.ts";
import { createUpstreamHost } from "./test/worker/runtime/upstream-host.ts";

const prebundled = [
  "@bufbuild/protobuf",
  "@bufbuild/protobuf/codegenv2",
  "@bufbuild/protobuf/wkt",
  "@connectrpc/connect",
  "@connectrpc/connect/protocol",
  "@connectrpc/connect/protocol-connect",
  "@connectrpc/connect-web",
  "@noble/hashes/sha2.js",
  "@peculiar/x509",
  "hono",
  "jose",
  "jose/errors",
  "jose/jws/compact/sign",
  "jose/jws/compact/verify",
  "jose/key/export",
  "jose/key/import",
  "reflect-metadata/lite",
  "zod/locales",
  "zod/mini",
];

/** `PROPERTY_SEED=random npm run unit` plays cases that no run has played before, and a number those of a failure. */
const { PROPERTY_SEED: propertySeed = "20261128" } = process.env;
const propertySetup = "./test/testkit/property-seed.ts";

// The workers of tests, and the programs that those start, get their environment from this process.
leaveShell("tests");

const internet = createInternet(createUpstreamHost());

/** A test may be slow on a slow machine; it may not fail. */
const timeouts = { testTimeout: hangMilliseconds, hookTimeout: hangMilliseconds };

/** The Worker's tests in workerd. @param flags Compatibility flags beside those of `wrangler.toml`. */
const inWorkerd = (
  name: string,
  files: { readonly include: string[]; readonly exclude?: string[] },
  flags: readonly string[] = [],
) => ({
  envDir: false,
  plugins: [
    cloudflareTest({
      main: "./test/worker/runtime/patient-worker.ts",
      // Not by the path of wrangler.toml: with it would come what .dev.vars and .env beside it hold.
      miniflare: {
        compatibilityDate: `${wranglerToml.compatibility_date}`,
        compatibilityFlags: [...(wranglerToml.compatibility_flags ?? []), ...flags],
        kvNamespaces: ["AUTHORITIES"],
        bindings: {
          TRUST_DOMAIN: "cluster.local",
          ISSUERS: [
            ...Object.values(issuerTables),
            ...reviewedTables(reviewingApi),
            { issuer: stormIssuer },
          ],
          [apiCredentialName]: "credential",
          INCEPTION_DATE: new Date().toISOString().slice(0, 10),
          KEK: `test:${randomBytes(32).toString("base64")}`,
          PROPAGATION_INTERVAL: "0s",
        },
        // The tests of quotas have their own.
        ratelimits: {
          CALLER_QUOTA: { namespace_id: "1", simple: { limit: 1_000_000, period: 60 } },
          ISSUER_QUOTA: { namespace_id: "2", simple: { limit: 1_000_000, period: 60 } },
        },
        durableObjects: { LOG_SHARD: { className: "TestedLogShard", useSQLite: true } },
        r2Buckets: ["LOG_BUCKET"],
        analyticsEngineDatasets: { CALL_COUNTS: { dataset: "rampart" } },
        // Nothing leaves the machine: what a test means to fetch, it serves itself.
        outboundService: async (request) => {
          const { status, body } = await internet(request);
          return new Response(body || null, { status });
        },
      },
    }),
  ],
  test: {
    name,
    ...files,
    // A runtime for each file would cost more than most files do.
    isolate: false,
    // All runtimes share one internet, and a Worker asks all its issuers there: one test would count the requests of another.
    maxWorkers: 1,
    sequence: { groupOrder: 1 },
    provide: { propertySeed },
    setupFiles: [propertySetup, "./test/worker/runtime/fresh-start.ts"],
    ...timeouts,
    deps: { optimizer: { ssr: { enabled: true, include: prebundled } } },
  },
});

export default defineConfig({
  envDir: false,
  test: {
    // As many as FileOrder keeps waiting, and enough others for the cores.
    maxWorkers: 6,
    sequence: { sequencer: FileOrder },
    teardownTimeout: hangMilliseconds,
    projects: [
      {
        envDir: false,
        test: {
          name: "node",
          environment: "node",
          ...timeouts,
          // Nothing of ours keeps state in a module, so files may share a worker and its imports.
          isolate: false,
          // Node itself strips the types and loads modules, and no test replaces one.
          experimental: { viteModuleRunner: false, nodeLoader: false },
          globalSetup: ["./test/testkit/programs/bundled-program.ts"],
          provide: { propertySeed },
          setupFiles: ["./test/testkit/once-a-worker.ts"],
          include: ["test/**/*.test.ts"],
          exclude: ["test/worker/**", "test/interop/**"],
        },
      },
      {
        envDir: false,
        test: {
          name: "operator",
          environment: "node",
          ...timeouts,
          include: ["test/interop/operator/**/*.test.ts"],
        },
      },
      inWorkerd("workerd", {
        include: ["test/worker/**/*.test.ts"],
        exclude: ["test/worker/modern/**"],
      }),
      inWorkerd("workerd-modern", { include: ["test/worker/modern/**/*.test.ts"] }, [
        "webcrypto_modern_algorithms",
      ]),
    ],
  },
});
