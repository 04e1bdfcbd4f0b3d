import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RetryAfter } from "../../../src/foundation/headers.ts";
import type { Refusal } from "../../../src/foundation/refusal.ts";
import { toConnectError } from "../../../src/transport/rpc/connect-error.ts";

const at = (millisecond: number): Date => new Date(Date.UTC(2026, 10, 21, 12, 0, 0, millisecond));

const waitAt = (refusal: Refusal, millisecond: number): number | undefined =>
  RetryAfter.parse(toConnectError(refusal, at(millisecond)).metadata.get("retry-after"));

const quota = (retryAfterSeconds: number): Refusal => ({
  reason: "quota-exceeded",
  quota: "caller",
  retryAfterSeconds,
});

describe("a refusal that may end by itself", () => {
  test.each<Refusal>([
    { reason: "no-signing-authority", why: "none" },
    { reason: "store-unreachable" },
    { reason: "log-unavailable", why: "full" },
    { reason: "too-many-waiting" },
    { reason: "key-provider-unreachable", issuer: "a" },
    { reason: "cluster-unreachable", cluster: "a" },
    { reason: "cluster-busy", cluster: "a" },
  ])("asks for a wait of two to four seconds: $reason", (refusal) => {
    expect([0, 1, 499, 501, 999].map((ms) => waitAt(refusal, ms))).toEqual([2, 3, 3, 4, 4]);
  });

  test("asks for the time to the next certificate, up to twice", () => {
    expect(waitAt(quota(0.002), 0)).toBe(1);
    expect(waitAt(quota(60), 0)).toBe(60);
    expect(waitAt(quota(60), 999)).toBe(120);
    const seconds = fc.double({ min: 0.001, max: 60, noNaN: true });
    fc.assert(
      fc.property(seconds, fc.integer({ min: 0, max: 999 }), (wait, millisecond) => {
        const asked = waitAt(quota(wait), millisecond) ?? 0;
        expect(asked).toBeGreaterThanOrEqual(Math.max(1, wait));
        expect(asked).toBeLessThanOrEqual(Math.ceil(2 * wait));
      }),
    );
  });
});

test("a gateway without a good credential of its own is told so, and no other caller", () => {
  const sentences = (["gateway", "time"] as const).map(
    (check) => toConnectError({ reason: "credential-rejected", check }, at(0)).rawMessage,
  );
  expect(sentences).toEqual(["gateway authentication failed", "request authentication failed"]);
});

test.each<Refusal>([
  { reason: "credential-missing" },
  { reason: "credential-rejected", check: "time" },
  { reason: "impersonation-denied", rule: "node" },
  { reason: "denied", subject: "a" },
  { reason: "policy-denied", rule: "a" },
  { reason: "signer-unknown" },
  { reason: "signer-denied" },
  { reason: "dns-name-denied" },
  { reason: "csr-malformed" },
  { reason: "csr-signature-invalid" },
  { reason: "csr-signature-algorithm-unacceptable" },
  { reason: "subject-key-unacceptable", fault: "curve" },
  { reason: "lifetime-too-long", requestedSeconds: 2n, maximumSeconds: 1 },
  { reason: "request-abandoned" },
])("a refusal for good asks for no wait: $reason", (refusal) => {
  expect(waitAt(refusal, 500)).toBeUndefined();
});
