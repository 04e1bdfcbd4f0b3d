import { verify, X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { DerReader, Tag } from "../../../src/pki/encoding/der-reader.ts";
import { logOrigin, readerToken } from "../../contract/log/log-values.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createPostQuantumCsr } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { readCrl } from "../../testkit/pki/crls.ts";
import { runRampart, serveToml, startServe } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";

const hour = 3_600_000;

/** A store whose signer with ML-DSA-65 has rotated: its cron has run for nine hours, until now. */
async function rotatedStore(
  values: Readonly<Record<string, unknown>>,
  directory: string,
): Promise<void> {
  let now = new Date(Date.now() - 9 * hour);
  const configuration = Configuration.parse(values);
  const { mint, signerMints } = await Composition.compose(configuration, {
    store: await FileStore.open(directory),
    signerStore: await FileStore.openSigners({ storeDirectory: directory, ca: configuration }),
    fetching: noFetching,
    cryptoProvider: nodeCryptoProvider,
    log: createEventRecorder(),
    clock: () => now,
  });
  await foundIfEmpty(mint, now);
  for (; now.getTime() <= Date.now(); now = new Date(now.getTime() + hour / 2))
    await Rotation.rotateAll([mint, ...signerMints.values()], now);
}

test("serve takes a signer with ML-DSA-65 through rotation, taint, CRL and log", async () => {
  const folder = await temporaryFolder();
  const [store, config] = [join(folder, "store"), join(folder, "rampart.toml")];
  const key = await createTokenKey("ES256", "k1");
  const [KEK, inception_date] = [
    randomKek(),
    new Date(Date.now() - 9 * hour).toISOString().slice(0, 10),
  ];
  const { issuer } = issuerTables.cluster;
  const signer = { name: "pq", authority_key: "ML-DSA-65", callers: [{ issuer }] };
  const values = {
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    PROPAGATION_INTERVAL: "0s",
    CRL: "on",
    INCEPTION_DATE: inception_date,
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
    SIGNERS: [{ ...signer, inception_date }],
  };
  await rotatedStore({ ...values, KEK }, store);
  const LOG_INCEPTION_DATE = new Date().toISOString().slice(0, 10);
  const log = { LOG_ORIGIN: logOrigin, LOG_INCEPTION_DATE, LOG_INTERVAL: "1s" };
  const places = { PLAINTEXT_LISTEN: "127.0.0.1:0" };
  await writeFile(config, serveToml(store, { ...values, ...log, ...places }));
  const secrets = { LOG_READERS: readerToken };
  const serve = await startServe(config, KEK, secrets);
  const published = `http://${serve.monitoringAddress}`;
  const environment = { KEK, ...secrets, RAMPART_LOG_TOKEN: readerToken };
  const type = (...words: string[]) => runRampart(words, { environment, folder });
  const ofSigner = ["--config", config, "--signer", "pq"];
  const service = {
    send: (request: Request) => {
      const { pathname } = new URL(request.url);
      return fetch(new Request(`http://127.0.0.1:${serve.plaintextPort}${pathname}`, request));
    },
    key,
    now: () => new Date(),
    takeAudits: () => [],
  };

  const csr = await createPostQuantumCsr("ML-DSA-65");
  const issue = async () => {
    const call = { csr, metadata: { CertSigner: "pq" } };
    const outcome = await callWithClient(grpcWeb, service, call, await bearer(service));
    if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
    const [pem = "", bundle = ""] = outcome.certChain;
    const leaf = new X509Certificate(pem);
    const roots = (bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
      (each) => new X509Certificate(each),
    );
    const root = roots.find(({ publicKey }) => leaf.verify(publicKey));
    if (!root) throw new Error("no root has signed the leaf");
    return { pem, leaf, root, roots };
  };
  const list = async (): Promise<{ id: string; phase: string }[]> =>
    JSON.parse(await type("authority", "list", "--json", ...ofSigner));
  const signing = async () => (await list()).find(({ phase }) => phase === "signing")?.id ?? "";

  expect((await list()).map(({ phase }) => phase)).toContain("verifying");
  const before = await issue();
  await type("authority", "taint", await signing(), "--root", "immediately", "--yes", ...ofSigner);
  let after = await issue();
  await until("another authority signs, and the tainted root has left", async () => {
    after = await issue();
    return !after.roots.some(({ fingerprint256 }) => fingerprint256 === before.root.fingerprint256);
  });

  const file = join(folder, "leaf.pem");
  await writeFile(file, after.pem);
  await type("certificate", "revoke", file, "--yes", "--config", config);
  const serial = after.leaf.serialNumber.toLowerCase();
  const path = `/crl/${await signing()}.crl`;
  let crl = new Uint8Array();
  await until("the leaf is on the CRL", async () => {
    crl = new Uint8Array(await (await fetch(published + path)).arrayBuffer());
    return readCrl(crl).entries.some(([each]) => each.includes(serial));
  });
  const fields = new DerReader(crl).enter(Tag.sequence);
  const toBeSigned = fields.element(Tag.sequence);
  fields.skip(Tag.sequence);
  expect(verify(null, toBeSigned, after.root.publicKey, fields.bitStringOctets())).toBe(true);

  const url = `${published}/log/0`;
  await until("both leaves are in the log", async () => {
    const found = await Promise.all(
      [before, after].map(({ leaf }) =>
        type("log", "search", "--url", url, "--serial", leaf.serialNumber, "--json").catch(String),
      ),
    );
    return found.every((text) => text.includes("spiffe://cluster.local/ns/foo/sa/bar"));
  });
  await type("log", "check", "--url", url, "--dir", join(folder, "copy"));
});
