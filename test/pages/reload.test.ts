import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";

const page = readFileSync(new URL("../../docs/how-to/reload.md", import.meta.url), "utf8");

const programs: [string, readonly string[], readonly string[]][] = [
  ["serve", ServeConfiguration.restartKeys, [...Configuration.keys, ...ServeConfiguration.keys]],
  ["gateway", GatewayConfiguration.restartKeys, GatewayConfiguration.keys],
  ["distribute", DistributeConfiguration.restartKeys, DistributeConfiguration.keys],
  ["signer", SignerConfiguration.restartKeys, SignerConfiguration.keys],
];

/** The keys in the row of a program. */
function documentedKeys(program: string): string[] {
  const [, row = ""] =
    new RegExp(`^\\| \`rampart ${program}\` \\| (.+) \\|$`, "m").exec(page) ?? [];
  return row.split(", ").map((key) => key.replaceAll("`", ""));
}

test.each(programs)(
  "docs/how-to/reload.md names the keys of %s that need a restart",
  (program, restartKeys, keys) => {
    expect(documentedKeys(program)).toEqual(restartKeys);
    expect(restartKeys.filter((key) => !keys.includes(key))).toEqual([]);
  },
);

/** The keys that a running program follows. A new key belongs here, or among those that need a restart. */
const followed = new Map([
  [
    "serve",
    "ISSUERS DEFAULT_WORKLOAD_CERT_TTL MAX_WORKLOAD_CERT_TTL RENEWAL_LIMIT AUTHORITY_KEY AUTHORITY_LIFETIME UPSTREAM_AUTHORITY INCEPTION_DATE BUNDLE_WAIT JWT_ALGORITHM DEFAULT_JWT_TTL MAX_JWT_TTL SIGNERS POLICY TAINTED_AUTHORITIES DENIED REVOKED CONSOLE_TOKENS CONSOLE_ACCESS SERVING_NAMES CALLER_QUOTA ISSUER_QUOTA TLS_CERTIFICATE_FILE TLS_KEY_FILE LIMITS",
  ],
  [
    "gateway",
    "UPSTREAM UPSTREAM_CA_FILE CACHE TOKEN_FILE CLUSTER TLS_CERTIFICATE_FILE TLS_KEY_FILE READY_WITH_ROOTS KUBERNETES_SERVER KUBERNETES_CA_FILE KUBERNETES_TOKEN_FILE CONFIG_MAP CONFIG_MAPS CRL_CONFIG_MAPS CLUSTER_TRUST_BUNDLE LIMITS",
  ],
  [
    "distribute",
    "UPSTREAM UPSTREAM_CA_FILE CACHE KUBERNETES_SERVER KUBERNETES_CA_FILE KUBERNETES_TOKEN_FILE CONFIG_MAP CONFIG_MAPS CRL_CONFIG_MAPS CLUSTER_TRUST_BUNDLE",
  ],
  [
    "signer",
    "UPSTREAM UPSTREAM_CA_FILE CACHE TOKEN_FILE CLUSTER TRUST_DOMAIN SIGNERS LEASE KUBERNETES_SERVER KUBERNETES_CA_FILE KUBERNETES_TOKEN_FILE",
  ],
]);

test.each(programs)("%s follows each other key, and no key is forgotten", (program, ...keys) => {
  const [restartKeys, all] = keys;
  const rest = all.filter((key) => !restartKeys.includes(key));
  expect(rest.toSorted()).toEqual((followed.get(program) ?? "").split(" ").toSorted());
});

test.each(programs)("the chart replaces pods of %s for the keys that need a restart", (...row) => {
  const [program, restartKeys] = row;
  const helpers = readFileSync(
    new URL("../../deploy/helm/rampart/templates/_helpers.tpl", import.meta.url),
    "utf8",
  );
  const [, list = ""] = new RegExp(`^ {2}"${program}" \\(list ([^)]+)\\)`, "m").exec(helpers) ?? [];
  expect([...list.matchAll(/"(\w+)"/g)].map(([, key]) => key)).toEqual([...restartKeys]);
});
