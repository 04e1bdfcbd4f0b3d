import { OperatorError } from "../src/foundation/errors.ts";
import type { DevelopmentCluster } from "./cluster/cluster.ts";
import { say } from "./narration.ts";
import { nextCallText } from "./next-call.ts";
import type { CaClient } from "./workload/ca-client.ts";
import { certificateReport } from "./workload/certificate-report.ts";
import { createWorkloadKey } from "./workload/certificate-request.ts";
import { findEntry } from "./workload/first-entry.ts";

const workload = { namespace: "foo", serviceAccount: "httpbin" };

/**
 * Waits until the CA can sign; an empty store first gets its first authority.
 *
 * @throws OperatorError with the CA's own reasons when it cannot sign.
 */
export async function introduceAuthority(ca: CaClient): Promise<void> {
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
  ca: CaClient,
  cluster: DevelopmentCluster,
  readerToken: string,
): Promise<void> {
  const { namespace, serviceAccount } = workload;
  say("workload", `${namespace}/${serviceAccount} makes a key and calls CreateCertificate`);
  const claims = { ...workload, audiences: ["istio-ca"], expirationSeconds: 12 * 3600 };
  const token = await cluster.mintToken(claims);
  const spiffeId = `spiffe://cluster.local/ns/${namespace}/sa/${serviceAccount}`;
  const { privateKey, csrPem } = await createWorkloadKey(spiffeId);
  const chain = await ca.createCertificate(csrPem, token);
  const seconds = (performance.now() / 1000).toFixed(1);
  console.log(`\nThe first certificate, ${seconds} s after the start\n`);
  for (const [topic, text] of certificateReport(chain, privateKey)) say(topic, text);
  await introduceEntry(ca, readerToken, chain);
  const next = { ...workload, caUrl: ca.url, issuer: cluster.issuer, token, csrPem };
  console.log(`\n${nextCallText(next)}`);
}

/** Shows the certificate in the published log, and how to search it. */
async function introduceEntry(
  { url }: CaClient,
  readerToken: string,
  [leaf = ""]: readonly string[],
): Promise<void> {
  const { origin, index, size, entry } = await findEntry(url, readerToken, leaf);
  say("log", `${origin} has it at index ${index} of ${size}, signed and verified`);
  say("", `at ${entry.at}, by a ${entry.proof} ${entry.tokenId ?? ""} of ${entry.cluster}`);
  console.log(`\nEvery certificate is in the issuance log (docs/how-to/issuance-log.md):

export RAMPART_LOG_TOKEN=${readerToken}
npm run -s rampart -- log search --url ${url}/log/0 --since 1h

The console (docs/how-to/console.md), where the same token is the password:

${url.replace("//", `//operator:${readerToken}@`)}/`);
}
