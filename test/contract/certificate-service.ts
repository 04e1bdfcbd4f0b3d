import { beforeAll, describe } from "vitest";
import { describeAuditTrail } from "./certificate-service/audit-trail.ts";
import { describeClusterSigners } from "./certificate-service/cluster-signers.ts";
import { describeIssuedCertificates } from "./certificate-service/issued-certificates.ts";
import { describeRefusedRequests } from "./certificate-service/refused-requests.ts";
import { describeReviewedTokens } from "./certificate-service/reviewed-tokens.ts";
import { describeTrustBundleEndpoints } from "./certificate-service/trust-bundle-endpoints.ts";
import { describeWireMessages } from "./certificate-service/wire-messages.ts";
import { describeWireRequests } from "./certificate-service/wire-requests.ts";
import type { PlatformUnderTest, ReviewingService } from "./service-under-test.ts";

/**
 * The contract of a CA with Istio's clients, operators and auditors, which every platform keeps.
 *
 * @param start Starts the service once for all of these tests, its authority founded.
 */
export function describeCertificateService(
  start: () => Promise<ReviewingService>,
  platform: PlatformUnderTest = { hasTrailers: false },
): void {
  let started: ReviewingService | undefined;
  const service = (): ReviewingService => {
    if (!started) throw new Error("the service has not started");
    return started;
  };

  beforeAll(async () => {
    started = await start();
  });

  describe("an issued certificate", () => describeIssuedCertificates(service));
  describe("a refused request", () => describeRefusedRequests(service));
  describe("a signer of a cluster", () => describeClusterSigners(service, platform));
  describe("a reviewed token", () => describeReviewedTokens(service));
  describe("the wire", () => {
    describeWireMessages(service);
    describeWireRequests(service, platform);
  });
  describe("the audit trail", () => describeAuditTrail(service, platform));
  describe("an endpoint", () => describeTrustBundleEndpoints(service));
}
