import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { certificateCommand } from "../../../../src/cli/verbs/certificate/certificate.ts";
import { denyCommand } from "../../../../src/cli/verbs/deny.ts";
import { logCommand } from "../../../../src/cli/verbs/log/log.ts";
import { policyCommand } from "../../../../src/cli/verbs/policy/policy.ts";
import { FileStore } from "../../../../src/node/files/file-store.ts";
import { BucketLog } from "../../../../src/node/log/bucket-log.ts";
import { readerToken } from "../../../contract/log/log-values.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { createEventRecorder } from "../../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../../testkit/pki/certificates.ts";
import { createKek } from "../../../testkit/pki/sealed-record.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../../testkit/programs/store-toml.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { logConfiguration } from "../../../testkit/tlog/log-configuration.ts";
import { startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";
import { MemoryBucket } from "../../../testkit/tlog/memory-bucket.ts";

const kek = randomKek();
const inceptionDate = "2026-11-21";

/** Two replicas that log into one bucket, each into a shard of its own. */
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
  const ca = await startLoggedCa({ values: { KEK: kek }, another });
  onTestFinished(() => ca.end());
  const serials: string[] = [];
  for (const log of [staying.log, leaving.log, leaving.log]) {
    next = log;
    serials.push(new X509Certificate(await ca.issue()).serialNumber.toLowerCase());
  }
  leaving.kill();
  await staying.log.publish();

  const folder = await temporaryFolder();
  const configuration = join(folder, "rampart.toml");
  const terminal = new MemoryTerminal({ clock: () => ca.ca.now() });
  terminal.setVariable("KEK", kek);
  terminal.setVariable("RAMPART_LOG_TOKEN", readerToken);
  const store = await FileStore.open(join(folder, "store"));
  for (const each of await ca.ca.store.load()) await store.put(each);
  await writeFile(configuration, storeToml(join(folder, "store"), 'PROPAGATION_INTERVAL = "0s"'));
  const shards = [0, 1].map((shard) => ["--url", ca.url.replace(/0$/, String(shard))]);
  const config = ["-c", configuration];

  const checked: string[] = [];
  for (const url of shards) checked.push(await terminal.run(logCommand, ["check", ...url]));
  const [first = []] = shards;
  const words = ["revoke", "--node", "node-1", ...first, "--yes", ...config];
  const [{ verifierKey = "" } = {}] = await publishedLog.shards();
  await writeFile(join(folder, "policy"), `log ${verifierKey}\nquorum none\n`);
  // The policy has no key of the other shard, which is therefore not believed.
  const policed = terminal.run(certificateCommand, [...words, "--policy", join(folder, "policy")]);
  await expect(policed).rejects.toThrow(/^the log does not hold: /);
  const revocations = await terminal.run(certificateCommand, words);
  expect(checked).toEqual([
    "log.test/2026/0: 2 entries, all of them verified",
    "log.test/2026/1: 3 entries, all of them verified",
  ]);
  expect(revocations).toContain("rampart deny add node/node-1 --config ");
  const revoked = JSON.parse(
    await terminal.run(certificateCommand, ["revoked", "--json", ...config]),
  );
  expect(revoked.map(({ serial }: { serial: string }) => serial).toSorted()).toEqual(
    serials.toSorted(),
  );
  await terminal.run(denyCommand, ["add", "node/node-1", "--yes", ...config]);
  expect(await terminal.run(denyCommand, ["list", ...config])).toContain("node-1");

  const requests: number[] = [];
  for (const url of shards) {
    const words = ["replay", configuration, ...url, "--json"];
    requests.push(JSON.parse(await terminal.run(policyCommand, words)).requests);
  }
  expect(requests).toEqual([1, 2]);
});
