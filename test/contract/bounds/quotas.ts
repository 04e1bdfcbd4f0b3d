import { beforeAll, describe, expect, test } from "vitest";
import { forwardedHeader, forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import type { QuotaName } from "../../../src/foundation/refusal.ts";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { endOf } from "../../testkit/refusal.ts";
import {
  bearer,
  type CertificateCall,
  callWithClient,
  grpcWeb,
  protocols,
  requestOf,
  retryAfterIn,
} from "../rpc-calls.ts";
import { issuers, type ServiceUnderTest, trustDomain } from "../service-under-test.ts";

const ofCaller = "ResourceExhausted quota-exceeded caller";
const ofIssuer = "ResourceExhausted quota-exceeded issuer";

/** Certificates in a minute. */
export type PerMinute = Readonly<Record<QuotaName, number>>;

/**
 * The quotas of a CA, on every platform.
 *
 * @param start A CA that trusts the issuers `cluster` and `team`, with quotas that nobody has used.
 */
export function describeQuotas(start: (perMinute: PerMinute) => Promise<ServiceUnderTest>): void {
  let workload: Workload;

  beforeAll(async () => {
    workload = await createWorkload();
  });

  async function startAsking(perMinute: Partial<PerMinute>) {
    const service = await start({ caller: 1000, issuer: 1000, ...perMinute });
    const headersOf = new Map<string, Record<string, string>>();
    /** How the call ends: a caller goes on with one token. */
    async function ask(account?: string, call: CertificateCall = {}, issuer?: string) {
      const key = `${issuer} ${account}`;
      const headers = headersOf.get(key) ?? (await bearer(service, account, issuer));
      headersOf.set(key, headers);
      const asked = { csr: workload.csrPem, ...call };
      return endOf(service, () => callWithClient(grpcWeb, service, asked, headers));
    }
    return { service, ask };
  }

  const acting = (path: string): CertificateCall => ({
    metadata: { ImpersonatedIdentity: `spiffe://${trustDomain}/ns/${path}` },
  });

  describe("a quota of callers", () => {
    test("gives a caller as much as it says, then asks it to try again", async () => {
      const { service, ask } = await startAsking({ caller: 3 });
      for (let i = 0; i < 3; i++) expect(await ask()).toBe("issued");
      service.takeAudits();
      const headers = await bearer(service);
      for (const protocol of protocols) {
        const call = { csr: workload.csrPem };
        expect(await callWithClient(protocol, service, call, headers)).toEqual({
          code: "ResourceExhausted",
          message: "too many certificates, try again later",
        });
        const response = await service.send(requestOf(protocol, call, headers));
        expect(Number(await retryAfterIn(protocol, response))).toBeGreaterThan(0);
      }
      for (const audit of service.takeAudits()) {
        expect(audit).toMatchObject({
          outcome: "refused",
          reason: "quota-exceeded",
          check: "caller",
          spiffeId: `spiffe://${trustDomain}/ns/foo/sa/bar`,
        });
      }
    });

    test("takes nothing from other callers", async () => {
      const { ask } = await startAsking({ caller: 1 });
      expect(await ask()).toBe("issued");
      expect(await ask()).toBe(ofCaller);
      expect(await ask("foo:other")).toBe("issued");
      expect(await ask("team-a:bar", {}, issuers.team)).toBe("issued");
    });

    test("counts each workload of a node proxy by itself", async () => {
      const { ask } = await startAsking({ caller: 1 });
      const ztunnel = "istio-system:ztunnel";
      for (let i = 0; i < 10; i++) {
        expect(await ask(ztunnel, acting(`foo/sa/bar-${i}`))).toBe("issued");
      }
      expect(await ask(ztunnel, acting("foo/sa/bar-3"))).toBe(ofCaller);
      expect(await ask("foo:bar-3")).toBe("issued");
    });

    test("counts a request before its CSR is read", async () => {
      const { ask } = await startAsking({ caller: 2 });
      expect(await ask(undefined, { csr: "junk" })).toBe("InvalidArgument csr-malformed");
      expect(await ask()).toBe("issued");
      expect(await ask(undefined, { csr: "junk" })).toBe(ofCaller);
    });

    test("counts nothing of callers that may not have what they ask for", async () => {
      const { service, ask } = await startAsking({ caller: 1 });
      const forged = { authorization: "Bearer e30.e30.e30" };
      for (let i = 0; i < 3; i++) {
        expect(await ask(undefined, acting("foo/sa/other"))).toBe(
          "PermissionDenied impersonation-denied account",
        );
        expect(await endOf(service, () => callWithClient(grpcWeb, service, {}, forged))).toBe(
          "Unauthenticated credential-rejected form",
        );
      }
      expect(await ask()).toBe("issued");
    });
  });

  describe("a quota of issuers", () => {
    test("counts renewals by the issuer that proved the caller", async () => {
      const { service, ask } = await startAsking({ issuer: 2 });
      const renewals = async (account: string, gateway: string, issuer: string) => {
        const headers = await bearer(service, account, issuer);
        const first = await callWithClient(grpcWeb, service, { csr: workload.csrPem }, headers);
        const [leaf = ""] = "certChain" in first ? first.certChain : [];
        const uri = `spiffe://${trustDomain}/ns/${account.replace(":", "/sa/")}`;
        const forwarded = { [forwardedHeader]: forwardedValue(leaf, uri) };
        const through = { ...(await bearer(service, gateway, issuer)), ...forwarded };
        const call = { csr: workload.csrPem };
        const renew = () => endOf(service, () => callWithClient(grpcWeb, service, call, through));
        return [await renew(), await renew()];
      };
      const exhausted = ["issued", ofIssuer];
      const { cluster, team } = issuers;
      expect(await renewals("foo:bar", "istio-system:gateway", cluster)).toEqual(exhausted);
      expect(await renewals("team-a:bar", "team-mesh:gateway", team)).toEqual(exhausted);
      expect(await ask("foo:other")).toBe(ofIssuer);
    });

    test("is not used up by a caller that has used up its own", async () => {
      const { ask } = await startAsking({ caller: 1, issuer: 2 });
      expect(await ask("foo:a")).toBe("issued");
      for (let i = 0; i < 5; i++) expect(await ask("foo:a")).toBe(ofCaller);
      expect(await ask("foo:b")).toBe("issued");
      expect(await ask("foo:c")).toBe(ofIssuer);
    });
  });
}
