import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { Tile } from "../../../src/tlog/tile.ts";
import { readerToken } from "../../contract/log/log-values.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { s3CredentialsFile, startS3Api } from "../../testkit/stores/s3-api.ts";

const { issuer } = issuerTables.cluster;
const LOG_ORIGIN = "log.example.com/2026";

/** A certificate for a caller of a CA that logs. */
async function issueOnce(ca: ServedCa, key: TokenKey): Promise<void> {
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  const { csrPem: csr } = await createWorkload();
  const outcome = await client.createCertificate({ csr }, { authorization: `Bearer ${token}` });
  client.close();
  expect(outcome).toHaveProperty("certChain");
}

test("serve logs its authority, its own certificate and those of its callers, and serves the log", async () => {
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [{ issuer, jwks: jwksOf(key) }];
  const values = { LOG_ORIGIN, LOG_READERS: readerToken, ISSUERS };
  const ca = await serveCa(values, undefined, "tenant");
  onTestFinished(ca.end);
  await issueOnce(ca, key);
  expect(ca.log.audits.at(-1)).toMatchObject({ log: `${LOG_ORIGIN}/0`, logIndex: 2 });
  const url = `http://127.0.0.1:${ca.monitoringPort}/log/logs.json`;
  const headers = { authorization: `Bearer ${readerToken}` };
  const shards = await (await fetch(url, { headers })).json();
  expect(shards).toMatchObject([{ shard: "0", origin: `${LOG_ORIGIN}/0` }]);
  await ca.server.close(1000);
  const folder = join(ca.storeDirectory, "log", encodeURIComponent(LOG_ORIGIN), "0/public");
  const bundle = await readFile(join(folder, "tile/entries/000.p/3"));
  const proofs = Tile.parseBundle(bundle, 3).map((entry) => LogEntry.parse(entry).proof);
  expect(proofs).toEqual(["authority", "own", "token"]);
});

/** A CA whose log is in a bucket. */
async function serveInBucket(key: TokenKey, values: Readonly<Record<string, unknown>> = {}) {
  const api = await startS3Api();
  onTestFinished(api.close);
  const complete = {
    LOG_ORIGIN,
    LOG_STORE: `${api.place.bucket}/mesh-1/`,
    S3_ENDPOINT: api.origin,
    S3_REGION: api.place.region,
    S3_CREDENTIALS_FILE: await s3CredentialsFile(),
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    ...values,
  };
  const ca = await serveCa(complete, undefined, "tenant");
  onTestFinished(ca.end);
  return { api, ca };
}

test("serve logs into a bucket, whatever its store, and publishes at its end", async () => {
  const key = await createTokenKey("ES256", "k1");
  const { api, ca } = await serveInBucket(key, { LOG_SHARDS: 2 });
  await issueOnce(ca, key);
  const { log, logIndex } = ca.log.audits.at(-1) ?? {};
  expect([log, logIndex]).toEqual([expect.stringMatching(/^log\.example\.com\/2026\/[01]$/), 2]);
  await ca.server.close(1000);
  const folder = `mesh-1/${Buffer.from(LOG_ORIGIN).toString("hex")}/${String(log).endsWith("1") ? "1/" : ""}`;
  expect([...api.objects.keys()]).toContain(`${folder}tile/entries/000.p/3`);
});

test('with LOG_MODE = "best-effort" a bucket that is away keeps no certificate back, and the audit line has the entry', async () => {
  const key = await createTokenKey("ES256", "k1");
  const { api, ca } = await serveInBucket(key, { LOG_MODE: "best-effort" });
  api.instead = (_, response) => Boolean(response.writeHead(503).end());
  await issueOnce(ca, key);
  expect(ca.log.audits.at(-1)).toMatchObject({ log: "unlogged", outcome: "issued" });
  expect(ca.log.audits.at(-1)).toHaveProperty("logEntry");
  api.instead = undefined;
  await issueOnce(ca, key);
  expect(ca.log.audits.at(-1)).toMatchObject({ log: `${LOG_ORIGIN}/0` });
});
