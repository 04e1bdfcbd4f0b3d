import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configurationKeys } from "../../src/config/configuration.ts";
import {
  distributeKeys,
  distributeRestartKeys,
} from "../../src/node/distribute/distribute-configuration.ts";
import { gatewayKeys, gatewayRestartKeys } from "../../src/node/gateway/gateway-configuration.ts";
import { serveKeys, serveRestartKeys } from "../../src/node/serve/serve-configuration.ts";

const page = readFileSync(new URL("../../docs/how-to/reload.md", import.meta.url), "utf8");

/** The keys in the row of a program. */
function documentedKeys(program: string): string[] {
  const [, row = ""] =
    new RegExp(`^\\| \`rampart ${program}\` \\| (.+) \\|$`, "m").exec(page) ?? [];
  return row.split(", ").map((key) => key.replaceAll("`", ""));
}

test.each([
  ["serve", serveRestartKeys, [...configurationKeys, ...serveKeys]],
  ["gateway", gatewayRestartKeys, gatewayKeys],
  ["distribute", distributeRestartKeys, distributeKeys],
])(
  "docs/how-to/reload.md names the keys of %s that need a restart",
  (program, restartKeys, keys) => {
    expect(documentedKeys(program)).toEqual(restartKeys);
    expect(restartKeys.filter((key) => !keys.includes(key))).toEqual([]);
  },
);
