import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { isSignedByKey } from "../../../src/pki/x509/certificate-signature.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { kvStores } from "../../../src/worker/kv-store.ts";
import { openLogWithin } from "../../../src/worker/log/worker-log.ts";
import { variablesOf } from "../../../src/worker/variables.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, origin, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createPostQuantumCsr, createWorkload } from "../../testkit/callers/workload.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { noFetching } from "../../testkit/network/no-fetching.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";
import { logValues } from "../runtime/log-values.ts";

const hour = 3_600_000;
const { issuer } = issuerTables.cluster;
const certificatesIn = (pem: string): Certificate[] =>
  (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n?/g) ?? []).map((each) =>
    Certificate.parse(Pem.parse(each, ["CERTIFICATE"]) ?? new Uint8Array()),
  );
const spkiOf = ({ toBeSigned }: Certificate) => toBeSigned.spki;

/** A Worker with a signer of ML-DSA-65, the log and CRLs, and an operator beside it. */
async function start() {
  let now = new Date();
  const key = await createTokenKey("ES256", "k1");
  const signer = { name: "pq", authority_key: "ML-DSA-65", callers: [{ issuer }] };
  const environment = {
    ...env,
    ...logValues,
    CRL: "on",
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
    SIGNERS: [{ ...signer, inception_date: now.toISOString().slice(0, 10) }],
  };
  const worker = createWorker({
    clock: () => now,
    openLog: (...log) => openLogWithin(hangMilliseconds, ...log),
  });
  const send = (request: Request) => worker.fetch(request, environment);
  const service: ServiceUnderTest = { send, key, now: () => now, takeAudits: () => [] };
  const get = (path: string) => send(new Request(`${origin}${path}`));
  const roots = async (path = "/signer/pq/bundle.pem") =>
    certificatesIn(await (await get(path)).text());
  const composition = await Composition.compose(Configuration.parse(variablesOf(environment)), {
    ...kvStores(env.AUTHORITIES),
    fetching: noFetching,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    clock: () => now,
  });
  const { certificateAuthority, signerMints } = composition;
  const [authorities, mint] = [
    certificateAuthority.issuance.signers.get("pq")?.authorities,
    signerMints.get("pq"),
  ];
  if (!authorities || !mint) throw new Error("no signer");
  const issuance = { ...certificateAuthority.issuance, authorities };
  const cron = () => worker.scheduled(createScheduledController(), environment);
  await cron();
  await cron();
  return {
    service,
    get,
    roots,
    cron,
    now: () => now,
    operator: { certificateAuthority: { ...certificateAuthority, issuance }, mint },
    ownMint: composition.mint,
    pass: (milliseconds: number) => {
      now = new Date(now.getTime() + milliseconds);
    },
    /** A leaf of the signer, and the root that has signed it. */
    issue: async (csr: string) => {
      const call = { csr, metadata: { CertSigner: "pq" } };
      const outcome = await callWithClient(grpcWeb, service, call, await bearer(service));
      if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
      const [leaf] = certificatesIn(outcome.certChain[0] ?? "");
      if (!leaf) throw new Error("no leaf");
      for (const root of await roots()) {
        if (!SubjectPublicKey.isPostQuantum(spkiOf(root))) continue;
        if (await isSignedByKey(leaf, SubjectPublicKey.parse(spkiOf(root)))) return { leaf, root };
      }
      throw new Error("no root has signed the leaf");
    },
  };
}

test("a Worker with the flag signs with ML-DSA, and keeps the root out of the mesh's bundle", async () => {
  const { issue, roots, pass } = await start();
  pass(1.5 * hour);
  for (const csr of [(await createWorkload()).csrPem, await createPostQuantumCsr("ML-DSA-65")]) {
    await issue(csr);
    expect((await roots()).map(spkiOf).map(SubjectPublicKey.isPostQuantum).toSorted()).toEqual([
      false,
      true,
    ]);
    expect((await roots("/bundle.pem")).map(spkiOf).map(SubjectPublicKey.isPostQuantum)).toEqual([
      false,
    ]);
  }
});
