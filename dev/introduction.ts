import { createPrivateKey } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LogEntry } from "../src/ca/issuance/log-entry.ts";
import { ClientError, createClient } from "../src/client/client.ts";
import { OperatorError } from "../src/foundation/errors.ts";
import { Bytes } from "../src/pki/encoding/bytes.ts";
import { Pem } from "../src/pki/encoding/pem.ts";
import { ObjectReader } from "../src/tlog/extend.ts";
import { Frontier } from "../src/tlog/frontier.ts";
import { openCheckpointText } from "../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../src/tlog/note/verifier-key.ts";
import type { DevelopmentCluster } from "./cluster/cluster.ts";
import { say } from "./narration.ts";
import { certificateReport } from "./workload/certificate-report.ts";
import type { DevelopmentCa } from "./workload/development-ca.ts";

const workload = { namespace: "foo", serviceAccount: "httpbin" };

/**
 * Waits until the CA can sign; an empty store first gets its first authority.
 *
 * @throws OperatorError with the CA's own reasons when it cannot sign.
 */
export async function introduceAuthority(ca: DevelopmentCa): Promise<void> {
  const before = await ca.readiness();
  if (!before.authority)
    say("authority", "none signs yet: running the cron, which creates the first one");
  const cronFaults = await ca.runCron();
  const isHopeless = cronFaults.length > 0;
  const { authority, reasons } = await ca.awaitReadiness(isHopeless ? 0 : 4);
  const faults = [...cronFaults, ...reasons].map((fault) => `  - ${fault}`).join("\n");
  if (!authority) {
    throw new OperatorError(
      `The CA cannot sign:\n${faults}\nIts settings: wrangler.toml and .dev.vars.`,
    );
  }
  const origin = before.authority ? "kept from an earlier start" : "minted, sealed, stored";
  say("authority", `${origin}: ${authority}`);
  if (faults) say("", `but:\n${faults}`);
}

/** Requests a workload's certificate, prints it, and prints how to make the next call. */
export async function introduceWorkload(
  ca: DevelopmentCa,
  cluster: DevelopmentCluster,
  { readerToken, folder }: { readonly readerToken: string; readonly folder: string },
): Promise<void> {
  const { namespace, serviceAccount } = workload;
  say("workload", `${namespace}/${serviceAccount} makes a key and calls CreateCertificate`);
  const mint = (account: typeof workload): Promise<string> =>
    cluster.mintToken({ ...account, audiences: ["istio-ca"], expirationSeconds: 12 * 3600 });
  const token = () => mint(workload);
  const client = createClient({
    url: ca.url,
    token,
    trustDomain: "cluster.local",
    extractableKeys: true,
  });
  const { certChain, trustBundle, privateKeyPem = "" } = await client.issue().catch(callFailed);
  const seconds = (performance.now() / 1000).toFixed(1);
  console.log(`\nThe first certificate, ${seconds} s after the start\n`);
  const report = certificateReport([certChain, trustBundle.pem], createPrivateKey(privateKeyPem));
  for (const [topic, text] of report) say(topic, text);
  await introduceEntry(ca, readerToken, certChain);
  const tokenFile = join(folder, "cart.token");
  await writeFile(tokenFile, await mint({ namespace: "shop", serviceAccount: "cart" }), {
    mode: 0o600,
  });
  console.log(`\n${nextCallText(ca.url, cluster.issuer, tokenFile)}`);
}

function callFailed(error: unknown): never {
  if (!(error instanceof ClientError)) throw error;
  throw new OperatorError(`${error.message}\nThe Worker's log line above has the reason.`);
}

/** Shows the certificate in the published log, and how to search it. */
async function introduceEntry(
  { url }: DevelopmentCa,
  readerToken: string,
  certChain: string,
): Promise<void> {
  const { origin, index, size, entry } = await findEntry(url, readerToken, certChain);
  say("log", `${origin} has it at index ${index} of ${size}, signed and verified`);
  say("", `at ${entry.at}, by a ${entry.proof} ${entry.tokenId ?? ""} of ${entry.cluster}`);
  console.log(`\nEvery certificate is in the issuance log (npm run -s rampart -- docs issuance-log):

export RAMPART_LOG_TOKEN=${readerToken}
npm run -s rampart -- log search --url ${url}/log/0 --since 1h

The console (npm run -s rampart -- docs console), where the same token is the password:

${url.replace("//", `//operator:${readerToken}@`)}/`);
}

/** Commands for another shell, ready to paste. */
function nextCallText(caUrl: string, issuer: string, tokenFile: string): string {
  return `\
Ask for a certificate yourself, from another shell; npm run -s rampart -- docs first-certificate goes on:

npm run -s rampart -- certificate request --url ${caUrl} --token-file ${tokenFile} --out cart

The trust bundle:                     curl -sS ${caUrl}/bundle.pem
The development cluster's endpoints:  curl -sS ${issuer}
`;
}

/** The place of a certificate in the log, verified. */
interface FirstEntry {
  readonly origin: string;
  readonly index: number;
  readonly size: number;
  readonly entry: LogEntry;
}

const deadlineSeconds = 10;

/** Finds a certificate in the published log, as any reader does. @throws OperatorError */
async function findEntry(caUrl: string, token: string, leafPem: string): Promise<FirstEntry> {
  const deadline = Date.now() + 1000 * deadlineSeconds;
  for (;;) {
    const found = await lookFor(caUrl, token, leafPem);
    if (found) return found;
    if (Date.now() > deadline) {
      throw new OperatorError(`The log has not published the certificate in ${deadlineSeconds} s.`);
    }
    await sleep(200);
  }
}

async function lookFor(
  caUrl: string,
  token: string,
  leafPem: string,
): Promise<FirstEntry | undefined> {
  const headers = { authorization: `Bearer ${token}` };
  const get = (path: string): Promise<Response> => fetch(`${caUrl}/log/${path}`, { headers });
  const read = async (path: string): Promise<Uint8Array | undefined> => {
    const response = await get(`0/${path}`);
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined;
  };
  const shards = (await (await get("logs.json")).json()) as { verifierKey: string }[];
  const checkpoint = await read("checkpoint");
  const [shard] = shards;
  if (!shard || !checkpoint) return undefined;
  const key = VerifierKey.parse(shard.verifierKey);
  const tree = await openCheckpointText(new TextDecoder().decode(checkpoint), key);
  const leaf = Pem.parse(leafPem, ["CERTIFICATE"]);
  let found: FirstEntry | undefined;
  await ObjectReader.extend(Frontier.empty(), tree, read, (index, octets) => {
    const entry = LogEntry.parse(octets);
    if (!leaf || entry.kind === "token" || !Bytes.equal(entry.certificate, leaf)) return;
    found = { origin: tree.origin, index, size: tree.size, entry };
  });
  return found;
}
