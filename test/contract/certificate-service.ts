import { beforeAll, describe } from "vitest";
import { describeAuditTrail } from "./audit-trail.ts";
import { describeClusterSigners } from "./cluster-signers.ts";
import { describeIssuedCertificates } from "./issued-certificates.ts";
import { describeRefusedRequests } from "./refused-requests.ts";
import { describeReviewedTokens } from "./reviewed-tokens.ts";
import type { Platform, ReviewingService } from "./service-under-test.ts";
import { describeTrustBundleEndpoints } from "./trust-bundle-endpoints.ts";
import { describeWireMessages } from "./wire-messages.ts";
import { describeWireRequests } from "./wire-requests.ts";

/**
 * The contract of a CA with Istio's clients, operators and auditors, which every platform keeps.
 *
 * @param start Starts the service once for all of these tests, its authority founded.
 */
export function describeCertificateService(
  start: () => Promise<ReviewingService>,
  platform: Platform = { hasTrailers: false },
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
  describe("a signer of a cluster", () => describeClusterSigners(service));
  describe("a reviewed token", () => describeReviewedTokens(service));
  describe("the wire", () => {
    describeWireMessages(service);
    describeWireRequests(service, platform);
  });
  describe("the audit trail", () => describeAuditTrail(service, platform));
  describe("an endpoint", () => describeTrustBundleEndpoints(service));
}
