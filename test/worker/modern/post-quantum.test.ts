import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { parsePem } from "../../../src/pki/encoding/pem.ts";
import { parseCertificate } from "../../../src/pki/x509/certificate.ts";
import { isSignedByKey } from "../../../src/pki/x509/certificate-signature.ts";
import {
  hasPostQuantumKey,
  parseSubjectPublicKey,
} from "../../../src/pki/x509/subject-public-key.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuerTables, origin, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";

const hour = 3_600_000;

test("a Worker with the flag signs with ML-DSA, and keeps the root out of the mesh's bundle", async () => {
  let now = new Date();
  const key = await createTokenKey("ES256", "k1");
  const { issuer } = issuerTables.cluster;
  const environment = {
    ...env,
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
    SIGNERS: [
      {
        ...{ name: "pq", authority_key: "ML-DSA-65", callers: [{ issuer }] },
        inception_date: now.toISOString().slice(0, 10),
      },
    ],
  };
  const worker = createWorker({ clock: () => now });
  const cron = () => worker.scheduled(createScheduledController(), environment);
  const send = (request: Request) => worker.fetch(request, environment);
  await cron();
  await cron();
  now = new Date(now.getTime() + 1.5 * hour);
  const service: ServiceUnderTest = { send, key, now: () => now, takeAudits: () => [] };
  const { csrPem: csr } = await createWorkload();
  const metadata = { CertSigner: "pq" };
  const outcome = await callWithClient(grpcWeb, service, { csr, metadata }, await bearer(service));
  if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
  const [leafPem = "", bundle = ""] = outcome.certChain;
  const keysIn = (pem: string) =>
    (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n?/g) ?? []).map((each) => {
      const der = parsePem(each, ["CERTIFICATE"]);
      if (!der) throw new Error("no certificate");
      return parseCertificate(der);
    });
  const [leaf] = keysIn(leafPem);
  const roots = keysIn(bundle);
  const spkis = roots.map(({ toBeSigned }) => toBeSigned.spki);
  expect(spkis.map(hasPostQuantumKey).toSorted()).toEqual([false, true]);
  const root = parseSubjectPublicKey(spkis.find(hasPostQuantumKey) ?? new Uint8Array());
  expect(leaf && (await isSignedByKey(leaf, root))).toBe(true);
  const mesh = await (await send(new Request(`${origin}/bundle.pem`))).text();
  expect(keysIn(mesh).map(({ toBeSigned }) => hasPostQuantumKey(toBeSigned.spki))).toEqual([false]);
});
