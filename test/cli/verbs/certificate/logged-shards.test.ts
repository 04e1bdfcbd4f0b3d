import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { certificateCommand } from "../../../../src/cli/verbs/certificate/certificate.ts";
import { denyCommand } from "../../../../src/cli/verbs/deny.ts";
import { logCommand } from "../../../../src/cli/verbs/log/log.ts";
import { policyCommand } from "../../../../src/cli/verbs/policy/policy.ts";
import { FileStore } from "../../../../src/node/files/file-store.ts";
import { BucketLog } from "../../../../src/node/log/bucket-log.ts";
import { readerToken } from "../../../contract/log/log-values.ts";
import { createEventRecorder } from "../../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import { createKek } from "../../../testkit/pki/sealed-record.ts";
import { logConfiguration } from "../../../testkit/tlog/log-configuration.ts";
import { startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";
import { MemoryBucket } from "../../../testkit/tlog/memory-bucket.ts";
import { Operator } from "../../operator.ts";

const inceptionDate = "2026-11-21";

async function replicas() {
  const bucket = new MemoryBucket();
  const logKek = await createKek("k1");
  return [0, 1].map((firstShard) => {
    const objects = bucket.process();
    const log = new BucketLog({
      objects,
      firstShard,
      configuration: {
        ...logConfiguration({ origin: "log.test/2026", shards: 2, inceptionDate }),
        readers: [readerToken],
      },
      trustDomain: clusterLocal,
      keks: { hold: () => undefined, ring: () => [logKek] },
      log: createEventRecorder(),
      clock: () => new Date(`${inceptionDate}T12:00:00Z`),
      pause: () => new Promise(setImmediate),
    });
    return { log, kill: objects.kill };
  });
}

test("revoke and deny by node, and replay, find what two replicas logged, one of which is gone", async () => {
  const [staying, leaving] = await replicas();
  if (!staying || !leaving) throw new Error("no replicas");
  let next = staying.log;
  const { publishedLog, issuanceLog } = staying.log;
  const append: typeof issuanceLog.append = (...entry) => next.issuanceLog.append(...entry);
  const another = { publishedLog, issuanceLog: { ...issuanceLog, append } };
  const operator = await Operator.create(new Date(), 'PROPAGATION_INTERVAL = "0s"');
  const { terminal, config } = operator;
  const ca = await startLoggedCa({ values: { KEK: terminal.environment["KEK"] }, another });
  onTestFinished(() => ca.end());
  const serials: string[] = [];
  for (const log of [staying.log, leaving.log, leaving.log]) {
    next = log;
    serials.push(new X509Certificate(await ca.issue()).serialNumber.toLowerCase());
  }
  leaving.kill();
  await staying.log.publish();

  operator.now = ca.ca.now();
  terminal.setVariable("RAMPART_LOG_TOKEN", readerToken);
  const store = await FileStore.open(operator.file("store"));
  for (const each of await ca.ca.store.load()) await store.put(each);
  const shards = [0, 1].map((shard) => ["--url", ca.url.replace(/0$/, String(shard))]);

  const checked: string[] = [];
  for (const url of shards) checked.push(await terminal.run(logCommand, ["check", ...url]));
  const [first = []] = shards;
  const words = ["revoke", "--node", "node-1", ...first, "--yes"];
  const [{ verifierKey = "" } = {}] = await publishedLog.shards();
  await writeFile(operator.file("policy"), `log ${verifierKey}\nquorum none\n`);
  // The policy has no key of the other shard, which is therefore not believed.
  const policed = operator.run(certificateCommand, [...words, "--policy", operator.file("policy")]);
  await expect(policed).rejects.toThrow(/^the log does not hold: /);
  const revocations = await operator.run(certificateCommand, words);
  expect(checked).toEqual([
    "log.test/2026/0: 2 entries, all of them verified",
    "log.test/2026/1: 3 entries, all of them verified",
  ]);
  expect(revocations).toContain("rampart deny add node/node-1 --config ");
  const revoked = JSON.parse(await operator.run(certificateCommand, ["revoked", "--json"]));
  expect(revoked.map(({ serial }: { serial: string }) => serial).toSorted()).toEqual(
    serials.toSorted(),
  );
  await operator.run(denyCommand, ["add", "node/node-1", "--yes"]);
  expect(await operator.run(denyCommand, ["list"])).toContain("node-1");

  const requests: number[] = [];
  for (const url of shards) {
    const words = ["replay", config, ...url, "--json"];
    requests.push(JSON.parse(await terminal.run(policyCommand, words)).requests);
  }
  expect(requests).toEqual([1, 2]);
});
