import { expect, test } from "vitest";
import { Configuration } from "../../src/config/configuration.ts";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { read } from "./page-files.ts";

const programs: [string, readonly string[], readonly string[]][] = [
  ["serve", ServeConfiguration.restartKeys, [...Configuration.keys, ...ServeConfiguration.keys]],
  ["gateway", GatewayConfiguration.restartKeys, GatewayConfiguration.keys],
  ["distribute", DistributeConfiguration.restartKeys, DistributeConfiguration.keys],
  ["signer", SignerConfiguration.restartKeys, SignerConfiguration.keys],
];

/** What a list of keys in a file has, quoted in some way, behind the beginning of its line. */
const keysIn = (path: string, line: RegExp): string[] =>
  (line.exec(read(path))?.[1]?.match(/[A-Z][A-Z_0-9]+/g) ?? []).map(String);

test.each(programs)(
  "docs/how-to/reload.md names the keys of %s that need a restart",
  (program, restartKeys, keys) => {
    const row = new RegExp(`^\\| \`rampart ${program}\` \\| (.+) \\|$`, "m");
    expect(keysIn("docs/how-to/reload.md", row)).toEqual(restartKeys);
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
  const list = new RegExp(`^ {2}"${program}" \\(list ([^)]+)\\)`, "m");
  expect(keysIn("deploy/helm/rampart/templates/_helpers.tpl", list)).toEqual([...restartKeys]);
});
