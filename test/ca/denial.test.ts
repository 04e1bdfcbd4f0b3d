import { describe, expect, test } from "vitest";
import type { Caller } from "../../src/authn/caller.ts";
import { Denial, requireNotDenied } from "../../src/ca/denial.ts";
import { Mint } from "../../src/ca/mint.ts";
import { Statement } from "../../src/custody/statement.ts";
import { SpiffeId } from "../../src/pki/spiffe-id.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createMemoryMint, istioPhaseLengths } from "../testkit/ca/memory-mint.ts";
import { createKekRing } from "../testkit/ca/sealed-authorities.ts";
import { openStore } from "../testkit/ca/tainted-ca.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { clusterLocal, proved } from "../testkit/pki/certificates.ts";
import { refusalOf } from "../testkit/refusal.ts";

const now = new Date("2026-03-02T12:00:00Z");
const issuers = ["a", "b", "c"].map((name) =>
  tokenIssuerWithoutKeys(`https://${name}.test`, { cluster: name }),
);
const [issuer] = issuers;

const callerOf = (name: string, more: Partial<Caller> = {}): Caller => {
  const account = { namespace: "shop", name };
  const spiffeId = SpiffeId.ofWorkload(clusterLocal, account);
  return { spiffeId, account, proof: proved, ...more };
};

const denial = (subject: string, until?: Date) => {
  const parsed = Denial.parse({ subject, knownFrom: addSeconds(now, -60), until, why: undefined });
  if (!parsed) throw new Error(`no denial: ${subject}`);
  return parsed;
};

/** What denies the caller, of these denials in this order; `nothing` if nothing does. */
async function deniedBy(caller: Caller, ...subjects: (string | ReturnType<typeof denial>)[]) {
  const denials = subjects.map((each) => (typeof each === "string" ? denial(each) : each));
  const request = { caller, spiffeId: caller.spiffeId, holder: caller };
  try {
    requireNotDenied(denials, request, now);
    return "nothing";
  } catch (error) {
    const refusal = await refusalOf(() => Promise.reject(error));
    return refusal.reason === "denied" ? refusal.subject : refusal.reason;
  }
}

const cart = callerOf("cart", { issuer });

describe("of several denials", () => {
  test("each counts, in any order", async () => {
    const [own, other] = ["ns/shop/sa/cart", "ns/shop/sa/till"];
    expect(await deniedBy(cart, own, other)).toBe(own);
    expect(await deniedBy(cart, other, own)).toBe(own);
    expect(await deniedBy(cart, other, "cluster/b")).toBe("nothing");
  });

  test("one that has ended takes no other along", async () => {
    const ended = denial("ns/shop/sa/cart", now);
    expect(await deniedBy(cart, ended)).toBe("nothing");
    expect(await deniedBy(cart, ended, "cluster/a")).toBe("cluster/a");
    expect(await deniedBy(cart, denial("ns/shop/sa/till", now), "cluster/a")).toBe("cluster/a");
  });
});

test("a denial of any issuer that may stand behind a certificate counts, and of no other", async () => {
  const [provedBy] = issuers;
  const assumed = callerOf("cart", { provedBy, mayBeProvedBy: issuers.slice(0, 2) });
  for (const name of ["a", "b"]) {
    expect(await deniedBy(assumed, `cluster/${name}`)).toBe(`cluster/${name}`);
    expect(await deniedBy(assumed, `issuer/https://${name}.test`)).toContain(`${name}.test`);
  }
  expect(await deniedBy(assumed, "cluster/c")).toBe("nothing");
});

test("a denial of a gateway counts for whom it speaks, and one of its client for no other", async () => {
  const gateway = callerOf("gateway", { issuer: issuers[1], tokenId: "of-gateway" });
  const client = callerOf("cart", { provedBy: issuer, gateway });
  for (const subject of ["ns/shop/sa/gateway", "cluster/b", "token/of-gateway", "ns/shop/sa/cart"])
    expect(await deniedBy(client, subject)).toBe(subject);
  expect(await deniedBy(gateway, "ns/shop/sa/cart")).toBe("nothing");
});

test("a denial of a form that only a newer version knows is a refused record, and not left out", async () => {
  const mint = createMemoryMint(await createKekRing());
  const content = { subject: "galaxy/7", knownFrom: now, until: undefined, why: undefined };
  await mint.store.put(await Statement.seal("denial", content, mint));
  const { denials, refusals } = await openStore(mint);
  expect([denials, refusals.map(({ refusal }) => refusal.check)]).toEqual([[], ["form"]]);
});

test("a statement counts from a whole second on by which every process knows it", () => {
  const phaseLengths = istioPhaseLengths;
  for (const milliseconds of [1, 1000])
    expect(Mint.knownFrom({ phaseLengths }, new Date(now.getTime() + milliseconds))).toEqual(
      addSeconds(now, 1 + phaseLengths.propagationSeconds),
    );
});
