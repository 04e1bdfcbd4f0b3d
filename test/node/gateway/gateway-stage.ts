import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { issuerTables } from "../../contract/service-under-test.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

/** The account of the gateway, by which its CA lists it. */
export const account = "istio-system:rampart-gateway";

/**
 * Serves a CA that lists a gateway.
 *
 * @param values Keys of the CA.
 * @param more Other issuers, whose keys are those of the first unless they have their own.
 * @returns The keys of the gateway as well. Its token and its roots are files in the folder.
 */
export async function serveForGateway(values: object = {}, ...more: readonly object[]) {
  const key = await createTokenKey("ES256", "k1");
  const jwks = jwksOf(key);
  const gateways = [{ account: account.replace(":", "/"), dns_names: [servedName] }];
  const own = { ...issuerTables.cluster, jwks, gateways };
  const withKeys = (table: object) => ("jwks_uri" in table ? table : { ...table, jwks });
  const ISSUERS = [own, ...more.map(withKeys)];
  const served = await serveCa({ SERVING_NAMES: ["localhost"], ISSUERS, ...values });
  const folder = await lastingFolder();
  const [TOKEN_FILE, UPSTREAM_CA_FILE] = [join(folder, "token"), join(folder, "roots.pem")];
  await writeFile(TOKEN_FILE, await mintAccountToken(key, own.issuer, account, new Date()));
  await writeFile(UPSTREAM_CA_FILE, await served.bundle());
  const keys = {
    UPSTREAM: `https://localhost:${served.port}`,
    UPSTREAM_CA_FILE,
    TOKEN_FILE,
    LISTEN: "127.0.0.1:0",
    MONITORING_LISTEN: "127.0.0.1:0",
    LIMITS: patientLimits,
  };
  return { key, ISSUERS, served, folder, keys };
}
