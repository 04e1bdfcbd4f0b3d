import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Statement } from "../../../src/custody/statement.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { type Bytes, Hex } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { Certificate } from "../../../src/pki/x509/certificate.ts";
import { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { clusterLocal, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { type HeldLeaf, leafUnder } from "../../testkit/pki/held-leaf.ts";
import type { Outcome } from "../rpc-calls.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";
import { onStage, type StagedService } from "./stage.ts";

const hour = 3600;
const cluster = "https://cluster.test";
const spiffeId = (account: string) => `spiffe://cluster.local/ns/${account.replace(":", "/sa/")}`;

/**
 * The contract that a client certificate is a credential only while its reasons hold. They are one of the CA's
 * own authorities and an issuer, both of which may vouch.
 *
 * The attacker of these stories has the keys of authorities, and passes whatever the platform verifies.
 */
export function describeCertificateCredentials(open: () => Promise<ConfigurableService>): void {
  let service: StagedService;
  let key: TokenKey;
  let csr: string;
  let old: NewAuthority;
  let successor: NewAuthority;

  const table = (changes: object = {}) => ({ issuer: cluster, jwks: jwksOf(key), ...changes });
  const start = (...tables: object[]) =>
    service.start({ ISSUERS: tables.length > 0 ? tables : [table()] });

  beforeAll(async () => {
    key = await createTokenKey("ES256", "k1");
    csr = (await createWorkload()).csrPem;
  });

  beforeEach(async () => {
    service = await onStage(open)();
    old = await service.addAuthority([-4, -3, 3, 9]);
    successor = await service.addAuthority([-3, -1, 5, 11]);
  });

  async function taint({ authority: { id } }: NewAuthority, seconds: number): Promise<void> {
    const taintedAt = wholeSeconds(new Date());
    const said = { id, taintedAt, retiresAt: addSeconds(taintedAt, seconds) };
    await service.store.put(await Statement.seal("taint", said, service));
  }

  /** A leaf of which the last token is so many seconds ago. */
  const leafOf = (
    of: NewAuthority,
    account = "istio-system:istio-ingressgateway",
    { secondsAgo = 60, issuer = cluster, isImpersonated = false } = {},
  ) => {
    const provedAt = addSeconds(wholeSeconds(new Date()), -secondsAgo);
    return leafUnder(of, spiffeId(account), {
      provedAt,
      issuer: IdentityProof.issuerDigest(issuer),
      isImpersonated,
    });
  };

  async function expectRefused(running: RunningService, shown: HeldLeaf, check: string) {
    running.takeAudits();
    expect(await running.call(csr, shown)).toEqual({
      code: "Unauthenticated",
      message: "request authentication failed",
    });
    expect(running.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "refused", reason: "credential-rejected", check }),
    ]);
  }

  async function expectNothing(running: RunningService, shown: HeldLeaf): Promise<void> {
    // A platform that verifies chains by itself may not let the certificate reach the CA.
    expect(await running.call(csr, shown)).toMatchObject({
      code: expect.stringMatching(/^(?:Unauthenticated|Unavailable)$/),
    });
  }

  describe("an authority's key in other hands", () => {
    test("shows in the audit trail as a certificate, by serial number and authority", async () => {
      const running = await start();
      const held = await leafOf(old);
      running.takeAudits();
      await running.call(csr, held);
      expect(running.takeAudits()).toEqual([
        expect.objectContaining({
          outcome: "issued",
          proof: "certificate",
          callerSerialNumber: Hex.format(Certificate.parse(held.der).toBeSigned.serialNumber),
          callerAuthority: old.authority.id,
          provedAt: proofOf(held.der).provedAt.toISOString(),
          provedBy: cluster,
        }),
      ]);
    });

    test("makes none while the tainted root is in the bundle until its last leaf expires", async () => {
      await taint(old, 8 * hour);
      const running = await start();
      for (const account of ["istio-system:istio-ingressgateway", "foo:bar"]) {
        await expectRefused(running, await leafOf(old, account), "authority");
      }
      expect(await running.call(csr, await leafOf(successor))).toHaveProperty("certChain");
    });

    test("makes none once the tainted root has left the bundle", async () => {
      await taint(old, 0);
      const running = await start();
      await expectNothing(running, await leafOf(old));
    });

    test("makes none under the names of another authority", async () => {
      const running = await start();
      const forged = { ...successor, extractablePrivateKey: old.extractablePrivateKey };
      await expectNothing(running, await leafOf(forged));
    });

    test("leaves callers their tokens", async () => {
      await taint(old, 8 * hour);
      const running = await start();
      const token = await mintAccountToken(key, cluster, "foo:bar", new Date());
      const headers = { authorization: `Bearer ${token}` };
      running.takeAudits();
      expect(await running.call(csr, await leafOf(old), headers)).toHaveProperty("certChain");
      expect(running.takeAudits()).toEqual([
        expect.objectContaining({ outcome: "issued", spiffeId: spiffeId("foo:bar") }),
      ]);
    });
  });

  test("an additional root makes no credential", async () => {
    const schedule = scheduleAfter(new Date(), [-hour, -hour, hour, hour]);
    const foreign = await NewAuthority.create(clusterLocal, "EC-P256", schedule);
    const root = await AdditionalRoot.create(foreign.authority.certificate.der, new Date(0));
    await service.store.put(await Statement.seal("root", root, service));
    const running = await start();
    await expectRefused(running, await leafOf(foreign), "authority");
  });

  describe("an issuer", () => {
    const workload = "shop:cart";

    test("that is removed ends the renewals of its callers", async () => {
      const leaf = await leafOf(old, workload);
      expect(await (await start()).call(csr, leaf)).toHaveProperty("certChain");
      await expectRefused(await start(table({ issuer: "https://other.test" })), leaf, "issuer");
    });

    test("has no say in what another issuer has proved", async () => {
      const other = "https://other.test";
      const tables = [
        table({ namespaces: ["foo"] }),
        table({ issuer: other, namespaces: ["shop"] }),
      ];
      const running = await start(...tables);
      await expectRefused(running, await leafOf(old, workload), "namespace");
      const proved = await leafOf(old, workload, { issuer: other });
      expect(await running.call(csr, proved)).toHaveProperty("certChain");
    });
  });

  describe("the time since the last token", () => {
    const limited = (RENEWAL_LIMIT: string, ...tables: object[]) =>
      service.start({ RENEWAL_LIMIT, ISSUERS: tables.length > 0 ? tables : [table()] });
    const day = 24 * hour;

    test("is a month at the most by default", async () => {
      const running = await start();
      const good = await leafOf(old, "foo:bar", { secondsAgo: 30 * day - 60 });
      expect(await running.call(csr, good)).toHaveProperty("certChain");
      const late = await leafOf(old, "foo:bar", { secondsAgo: 30 * day });
      await expectRefused(running, late, "renewal");
    });

    test("has the limit of the configuration, and that of its issuer before it", async () => {
      const other = table({ issuer: "https://other.test", renewal_limit: "10m" });
      const running = await limited("20m", table(), other);
      const held = (issuer: string, minutes: number) =>
        leafOf(old, "foo:bar", { issuer, secondsAgo: 60 * minutes });
      for (const [issuer, minutes] of [
        [cluster, 19],
        ["https://other.test", 9],
      ] as const) {
        expect(await running.call(csr, await held(issuer, minutes))).toHaveProperty("certChain");
        await expectRefused(running, await held(issuer, minutes + 2), "renewal");
      }
    });

    test("never suffices where the limit is 0s", async () => {
      const running = await limited("0s");
      await expectRefused(running, await leafOf(old, "foo:bar", { secondsAgo: 0 }), "renewal");
    });
  });

  test("a token proves an identity now, whatever certificate comes along", async () => {
    const running = await start();
    const before = wholeSeconds(new Date());
    const token = await mintAccountToken(key, cluster, "foo:bar", new Date());
    const held = await leafOf(old, "foo:bar", { secondsAgo: 31 * 24 * hour });
    const outcome = await running.call(csr, held, { authorization: `Bearer ${token}` });
    const { provedAt, ...proof } = proofOf(derOf(outcome));
    expect(provedAt.getTime()).toBeGreaterThanOrEqual(before.getTime());
    expect(proof).toEqual({ issuer: IdentityProof.issuerDigest(cluster), isImpersonated: false });
  });

  test("a leaf that a node proxy has for a workload is no credential: the workload's node may change", async () => {
    const running = await start(
      table({ trusted_node_accounts: ["istio-system/ztunnel"], node_reach: "anywhere" }),
    );
    const token = await mintAccountToken(key, cluster, "istio-system:ztunnel", new Date());
    const headers = { authorization: `Bearer ${token}` };
    const metadata = { ImpersonatedIdentity: spiffeId("foo:bar") };
    const outcome = await running.call(csr, undefined, headers, metadata);
    expect(proofOf(derOf(outcome)).isImpersonated).toBe(true);
    const held = await leafOf(old, "foo:bar", { isImpersonated: true });
    await expectRefused(running, held, "impersonation");
  });
}

function derOf(outcome: Outcome): Bytes {
  const pem = "certChain" in outcome ? outcome.certChain[0] : undefined;
  const der = Pem.parse(pem ?? "", ["CERTIFICATE"]);
  if (!der) throw new Error(`no certificate: ${JSON.stringify(outcome)}`);
  return der;
}

function proofOf(der: Bytes): IdentityProof {
  const { identityProof } = Certificate.parse(der).toBeSigned.extensions;
  if (!identityProof) throw new Error("a leaf without a proof");
  return IdentityProof.read(identityProof);
}
