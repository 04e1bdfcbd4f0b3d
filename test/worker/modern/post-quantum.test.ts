import { expect, test } from "vitest";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { isSignedByKey } from "../../../src/pki/x509/certificate-signature.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { openLogWithin } from "../../../src/worker/log/worker-log.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { createPostQuantumCsr } from "../../testkit/callers/workload.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";
import { recordConsoleLines } from "../runtime/console-lines.ts";
import { logValues } from "../runtime/log-values.ts";
import { csr, stageWorker } from "../runtime/staged-worker.ts";

recordConsoleLines();

const certificatesIn = (pem: string): Certificate[] =>
  (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n?/g) ?? []).map((each) =>
    Certificate.parse(Pem.parse(each, ["CERTIFICATE"]) ?? new Uint8Array()),
  );
const spkiOf = ({ toBeSigned }: Certificate) => toBeSigned.spki;
const isPostQuantum = (root: Certificate) => SubjectPublicKey.isPostQuantum(spkiOf(root));

test("a Worker with the flag signs with ML-DSA, and keeps the root out of the mesh's bundle", async () => {
  const { issuer } = issuerTables.cluster;
  const inception_date = new Date().toISOString().slice(0, 10);
  const values = {
    ...logValues,
    CRL: "on",
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    SIGNERS: [{ name: "pq", authority_key: "ML-DSA-65", callers: [{ issuer }], inception_date }],
  };
  const worker = stageWorker(values, {
    openLog: (...log) => openLogWithin(hangMilliseconds, ...log),
  });
  await worker.cron();
  await worker.cron();
  worker.pass(5400);
  const roots = async (path: string) => certificatesIn(await (await worker.get(path)).text());
  for (const each of [csr, await createPostQuantumCsr("ML-DSA-65")]) {
    const call = { csr: each, metadata: { CertSigner: "pq" } };
    const outcome = await callWithClient(grpcWeb, worker, call, await bearer(worker));
    if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
    const [leaf] = certificatesIn(outcome.certChain[0] ?? "");
    const own = await roots("/signer/pq/bundle.pem");
    expect(own.map(isPostQuantum).toSorted()).toEqual([false, true]);
    const signing = own.filter(isPostQuantum).map(spkiOf).map(SubjectPublicKey.parse);
    const areSigned = signing.map((root) => leaf && isSignedByKey(leaf, root));
    expect(await Promise.all(areSigned)).toEqual([true]);
    expect((await roots("/bundle.pem")).map(isPostQuantum)).toEqual([false]);
  }
});
