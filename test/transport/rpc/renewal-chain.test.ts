import fc from "fast-check";
import { expect, test } from "vitest";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { connectBinary, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";

const issuer = "https://cluster.test";
const key = await createTokenKey("ES256", "k1");
const { csrPem: csr } = await createWorkload();

type Der = Uint8Array<ArrayBuffer>;

/** A CA, and one workload that has had one token. */
async function startChain(limitSeconds: number) {
  const ca = await startCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key), renewal_limit: `${limitSeconds}s` }],
    MAX_WORKLOAD_CERT_TTL: "24h",
  });
  await ca.found();
  const shown = new WeakMap<Request, Der>();
  const app = CaRoutes.create(ca.certificateAuthority, (request) => ({
    clientCertificate: shown.get(request),
  }));
  async function call(validityDuration: bigint, leaf?: Der): Promise<Der | undefined> {
    const token = await mintAccountToken(key, issuer, "foo:bar", ca.now());
    const headers = leaf ? {} : { authorization: `Bearer ${token}` };
    const request = requestOf(connectBinary, { csr, validityDuration }, headers);
    if (leaf) shown.set(request, leaf);
    const outcome = await outcomeOf(connectBinary, await app.fetch(request));
    if (!("certChain" in outcome)) return undefined;
    return Pem.parse(outcome.certChain[0] ?? "", ["CERTIFICATE"]);
  }
  return { ca, call };
}

const hour = 3600;

test("a chain of renewals never outlives its issuer's limit, whenever they come", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 72 * hour }),
      fc.array(
        fc.record({
          pass: fc.integer({ min: 0, max: 12 * hour }),
          asked: fc.integer({ min: 0, max: 24 * hour }),
        }),
        { minLength: 1, maxLength: 20 },
      ),
      async (limitSeconds, renewals) => {
        const { ca, call } = await startChain(limitSeconds);
        let leaf = await call(0n);
        const provedAt = Math.floor(ca.now().getTime() / 1000) * 1000;
        const end = provedAt + limitSeconds * 1000;
        for (const { pass, asked } of renewals) {
          ca.pass(pass);
          await ca.rotate();
          if (!leaf) throw new Error("no leaf to renew");
          const { validity } = Certificate.parse(leaf).toBeSigned;
          const isGood = ca.now() <= validity.notAfter && ca.now().getTime() < end;
          const renewed = await call(BigInt(asked), leaf);
          expect(renewed !== undefined).toBe(isGood);
          if (!renewed) continue;
          const { extensions, validity: next } = Certificate.parse(renewed).toBeSigned;
          expect(next.notAfter.getTime()).toBeLessThanOrEqual(end);
          const proof = extensions.identityProof && IdentityProof.read(extensions.identityProof);
          expect(proof?.provedAt.getTime()).toBe(provedAt);
          leaf = renewed;
        }
      },
    ),
    { numRuns: 12 },
  );
});
