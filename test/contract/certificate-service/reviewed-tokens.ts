import { beforeAll, expect, test } from "vitest";
import { createTokenKey, mintAccountToken, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { connectJson, type Outcome, outcomeOf, requestOf } from "../rpc-calls.ts";
import { issuers, type ReviewingService } from "../service-under-test.ts";

const refused = { code: "Unauthenticated", message: "request authentication failed" };
const tryAgain = {
  code: "Unavailable",
  message: "certificate authority is temporarily unavailable",
};

/** With `review = "before-keys"`, the signature decides first, then the API server. */
export function describeReviewedTokens(service: () => ReviewingService): void {
  let csr: string;
  let other: TokenKey;

  beforeAll(async () => {
    csr = (await createWorkload()).csrPem;
    other = await createTokenKey("ES256", "k1");
  });

  async function call(issuer: string, account: string, key = service().key): Promise<Outcome> {
    const token = await mintAccountToken(key, issuer, account, service().now());
    const headers = { authorization: `Bearer ${token}` };
    const response = await service().send(requestOf(connectJson, { csr }, headers));
    return outcomeOf(connectJson, response);
  }

  const withKeyId = (kid: string): TokenKey => ({
    ...other,
    publicJwk: { ...other.publicJwk, kid },
  });
  const issued = { certChain: [expect.any(String), expect.any(String)] };

  test("accepts a token that its API server knows", async () => {
    const before = await service().questions();
    expect(await call(issuers.reviewed, "foo:bar")).toEqual(issued);
    expect(await service().questions()).toBe(before + 1);
  });

  test("asks nothing about forged tokens, and refuses a deleted pod's among them", async () => {
    const before = await service().questions();
    const forged = Array.from({ length: 40 }, (_, i) =>
      call(issuers.reviewed, "foo:bar", withKeyId(i % 2 === 0 ? "k1" : `unknown-${i}`)),
    );
    const deleted = call(issuers.reviewed, "foo:deleted");
    expect(await Promise.all(forged)).toEqual(forged.map(() => refused));
    expect(await deleted).toEqual(refused);
    expect(await service().questions()).toBe(before + 1);
  });

  test("answers Unavailable while the API server is saturated, and never lets the keys decide", async () => {
    expect(await call(issuers.busy, "foo:bar")).toEqual(tryAgain);
    expect(await call(issuers.busy, "foo:bar", withKeyId("k1"))).toEqual(refused);
  });
}
