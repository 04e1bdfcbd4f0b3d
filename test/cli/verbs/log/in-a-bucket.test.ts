import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Frontier } from "../../../../src/tlog/frontier.ts";
import { VerifierKey } from "../../../../src/tlog/note/verifier-key.ts";
import { readerToken } from "../../../contract/log/log-values.ts";
import { issuerTables } from "../../../contract/service-under-test.ts";
import { foundEarlier, type ServedCa, serveCa, servedName } from "../../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { createWorkload } from "../../../testkit/callers/workload.ts";
import { stretchLightly } from "../../../testkit/light-scrypt.ts";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { nativeClient } from "../../../testkit/network/native-grpc.ts";
import {
  createKekEntry,
  createOperatorFolder,
  type OperatorFolder,
  rampartHere,
} from "../../../testkit/programs/command-line.ts";
import { type S3Api, s3Credential, startS3Api } from "../../../testkit/stores/s3-api.ts";
import { eventually } from "../../../testkit/time/eventually.ts";
import { createCosigner, standInWitness } from "../../../testkit/tlog/stand-in-witness.ts";

stretchLightly();

const { issuer } = issuerTables.cluster;
const key = await createTokenKey("ES256", "k1");
const origin = "log.test/mesh";

let api: S3Api;
let folder: OperatorFolder;
let environment: Readonly<Record<string, string>>;
let ca: ServedCa;
let values: Readonly<Record<string, unknown>>;
let policy: string;
let serials: readonly string[];

const inFolder = (name: string): string => join(folder.path, name);
const type = (words: string) => rampartHere(folder, words, environment);
const config = "--config ./rampart.toml";
const log = () => `--url http://127.0.0.1:${ca.monitoringPort}/log/0`;
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

/** A witness of the log, which reads the key of the log in its bucket. */
async function startWitness() {
  const { privateKey, publicKey } = await VerifierKey.generate();
  const cosigner = createCosigner("w1", privateKey, await VerifierKey.raw(publicKey));
  let answer: ReturnType<typeof standInWitness> | undefined;
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const [, vkey] = [...api.objects].find(([name]) => name.endsWith("/vkey")) ?? [];
    const logKey = VerifierKey.parse(vkey?.body.trim() ?? "");
    const { size } = Frontier.empty();
    const root = Frontier.empty().root();
    answer ??= standInWitness(logKey, cosigner, new Date(), { size, root });
    const cosigned = await answer(body);
    response.writeHead(cosigned.status, { "content-type": cosigned.contentType });
    response.end(cosigned.body);
  });
  const { host, close } = await listenOnLoopback(server);
  const text = `witness w1 ${VerifierKey.format(cosigner.key)} http://${host}\nquorum w1\n`;
  return { text, close };
}

async function issue(account: string): Promise<string> {
  const token = await mintAccountToken(key, issuer, account, new Date());
  const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  const { csrPem: csr } = await createWorkload();
  const outcome = await client.createCertificate({ csr }, { authorization: `Bearer ${token}` });
  client.close();
  if (!("certChain" in outcome)) throw new Error("no certificate");
  return outcome.certChain[0] ?? "";
}

const configure = (keys: Readonly<Record<string, unknown>>, file: string) =>
  writeFile(
    inFolder(file),
    // A table of TOML in one line.
    Object.entries(keys)
      .map(([name, value]) => `${name} = ${JSON.stringify(value).replaceAll('":', '" = ')}\n`)
      .join(""),
  );

/** An operator's `rampart serve` with its records and its log in a bucket, and three certificates. */
beforeAll(async () => {
  [api, folder] = [await startS3Api(), await createOperatorFolder()];
  environment = {
    KEK: createKekEntry(folder, "k1"),
    RAMPART_LOG_TOKEN: readerToken,
    RAMPART_PASSPHRASE: "a passphrase of five words",
  };
  const { accessKeyId, secretAccessKey } = s3Credential;
  const credential = `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`;
  await writeFile(inFolder("credentials"), credential, { mode: 0o600 });
  const witness = await startWitness();
  policy = witness.text;
  const logless = {
    STORE: "s3",
    STORE_BUCKET: api.place.bucket,
    STORE_PREFIX: "mesh-1/",
    S3_ENDPOINT: api.origin,
    S3_REGION: api.place.region,
    S3_CREDENTIALS_FILE: inFolder("credentials"),
    PROPAGATION_INTERVAL: "10s",
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
  };
  values = { ...logless, LOG_ORIGIN: origin, LOG_INTERVAL: "1s", LOG_WITNESSES: policy };
  const { KEK } = environment;
  await foundEarlier({ ...logless, KEK });
  ca = await serveCa({ ...values, KEK, LOG_READERS: readerToken }, undefined, "nobody");
  await configure(
    { ...values, MONITORING_LISTEN: `127.0.0.1:${ca.monitoringPort}` },
    "rampart.toml",
  );
  const leaves = [await issue("shop:web"), await issue("shop:web"), await issue("shop:cart")];
  serials = leaves.map((pem) => new X509Certificate(pem).serialNumber.toLowerCase());
  await writeFile(inFolder("leaf.pem"), leaves[0] ?? "");
  await eventually(async () =>
    expect((await type(`log check ${log()}`)).stdout).toContain(`${origin}/0: 5 entries, all`),
  );
  return async () => {
    await ca.end();
    await api.close();
    await witness.close();
  };
});

describe("of a CA whose log is in a bucket,", () => {
  test("log search, prove and verify find a certificate, cosigned by the witness", async () => {
    const web = "--spiffe-id spiffe://cluster.local/ns/shop/sa/web";
    const { stdout } = await type(`log search ${log()} --json ${web}`);
    const found = linesOf(stdout).map(({ serial }) => serial);
    expect(found.toSorted()).toEqual(serials.slice(0, 2).toSorted());
    const [object] = [...api.objects].filter(([name]) => name.endsWith("/vkey"));
    await writeFile(inFolder("policy"), `log ${object?.[1].body.trim()}\n${policy}`);
    const proof = await type(`log prove ./leaf.pem ${log()} --policy ./policy`);
    expect([proof.code, proof.stdout]).toEqual([0, expect.stringContaining("\n— w1 ")]);
    await writeFile(inFolder("proof"), proof.stdout);
    for (const words of [`./proof --policy ./policy`, log()])
      expect(await type(`log verify ./leaf.pem ${words}`)).toMatchObject({ code: 0 });
  });

  test("log follow exports each entry once, and a copy goes on", async () => {
    const url = log().replace(/\/0$/, "");
    const follow = () => type(`log follow ${url} --dir ./copy --to ./events ${config}`);
    const { stdout, stderr } = await follow();
    expect(linesOf(stdout).map(({ finding }) => finding)).toEqual(["authority-appeared"]);
    expect(stderr).toContain(`${origin}/0: 5 entries, 5 exported`);
    expect(await follow()).toMatchObject({ code: 0, stdout: "" });
    expect(linesOf(await readFile(inFolder("events"), "utf8"))).toHaveLength(5);
    expect(linesOf((await type("log tail --dir ./copy/0 --json")).stdout)).toHaveLength(5);
  });

  test("authority plan and doctor have nothing to say against it", async () => {
    const plan = await type(`authority plan ${config} --json`);
    expect(JSON.parse(plan.stdout)).toMatchObject({ authorities: [{ phase: "signing" }] });
    const { stdout } = await type(`doctor ${config} --json`);
    const named = JSON.parse(stdout).findings.map(({ name }: { name: string }) => name);
    expect(named.filter((name: string) => /^ca-|log/.test(name))).toEqual([]);
  });

  test("a backup that is restored elsewhere goes on with it", async () => {
    const words = "deny add pod/2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21 --yes";
    expect(await type(`${words} ${config}`)).toMatchObject({ code: 0 });
    expect(await type(`authority export --out ./backup ${config}`)).toMatchObject({ code: 0 });
    const elsewhere = {
      ...values,
      STORE_PREFIX: "mesh-2/",
      LOG_STORE: `${api.place.bucket}/mesh-1-log/`,
    };
    await configure(elsewhere, "elsewhere.toml");
    const restoring = await type("authority restore ./backup --yes --config ./elsewhere.toml");
    expect(restoring).toMatchObject({ code: 0 });
    await ca.end();
    const { KEK } = environment;
    ca = await serveCa({ ...elsewhere, KEK, LOG_READERS: readerToken }, undefined, "nobody");
    // Its serving certificate is in the log. It denies what the backup denies.
    await expect(issue("shop:web")).rejects.toThrow("no certificate");
    await eventually(async () => {
      const { stdout } = await type(`log search ${log()} --dir ./copy/0 --json -n 1`);
      expect(linesOf(stdout).map(({ index }) => index)).toEqual([5]);
    });
  });
});
