import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  type AdditionalRoot,
  createAdditionalRoot,
  retireRoot,
} from "../../../src/pki/authority/additional-root.ts";
import { phaseAt } from "../../../src/pki/authority/schedule.ts";
import { signingAuthorityAt } from "../../../src/pki/authority/signing-authority.ts";
import { applyTaints } from "../../../src/pki/authority/taint.ts";
import {
  bundleSequenceAt,
  publishedAuthoritiesAt,
  trustBundleAt,
} from "../../../src/pki/authority/trust-bundle.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { phasesOf, second, secondOf, stub } from "../../testkit/ca/timeline.ts";
import { applyEdit, inHex } from "../../testkit/der/mutation.ts";
import { createRoot } from "../../testkit/pki/foreign-root.ts";

const der = await createRoot({ notAfter: second(1000) });
const root = await createAdditionalRoot(der, second(100));

const rootsAt = (published: readonly AdditionalRoot[], n: number) =>
  trustBundleAt(published, second(n)).roots.map(inHex);

describe("an additional root", () => {
  test("has the SHA-256 of its certificate as its id", () => {
    expect(root.id).toBe(createHash("sha256").update(der).digest("hex"));
    expect(root.roots).toEqual([der]);
  });

  test("is in the bundle from its publication until it expires", () => {
    const all = [99.999, 100, 999.999, 1000].map((n) => rootsAt([root], n).length);
    expect(all).toEqual([0, 1, 1, 0]);
  });

  test("never signs, not even at the instant of its publication", () => {
    for (const n of [0, 99, 100, 100.001, 101, 999, 1000]) {
      expect(signingAuthorityAt([root], second(n))).toBeUndefined();
      expect(phaseAt(root.schedule, second(n))).not.toBe("signing");
    }
  });

  test.each([1000, 1001, 50_000])(
    "that expired before its publication at %d never enters the bundle",
    async (n) => {
      const expired = await createAdditionalRoot(der, second(n));
      expect([0, 999, 1000, n, n + 1].map((at) => rootsAt([expired], at).length)).toEqual([
        0, 0, 0, 0, 0,
      ]);
      expect(bundleSequenceAt([expired], [], second(n + 1))).toBe(0);
    },
  );

  test("that an authority also has is in the bundle once and does not change its sequence", () => {
    const authority = stub("aa", [50, 60, 500, 600], [inHex(der)]);
    expect(trustBundleAt([authority, root], second(100)).roots).toHaveLength(1);
    const sequences = [50, 99, 100, 600, 999].map((n) =>
      bundleSequenceAt([authority, root], [], second(n)),
    );
    expect(new Set(sequences)).toEqual(new Set([second(50).getTime()]));
    expect(trustBundleAt([authority, root], second(999)).roots).toHaveLength(1);
    expect(trustBundleAt([authority, root], second(1000)).roots).toHaveLength(0);
  });

  test.each<[string, Parameters<typeof applyEdit>[1]]>([
    ["with a trailing octet", { at: [], after: "00" }],
    ["of version 1", { at: [0, 0], replace: "" }],
    ["without a signature", { at: [2], replace: "" }],
    ["without its validity", { at: [0, 4], replace: "" }],
  ])("refuses a certificate %s", async (_, edit) => {
    const broken = applyEdit(Buffer.from(der), edit);
    await expect(createAdditionalRoot(broken, second(0))).rejects.toBeInstanceOf(DerError);
  });

  test("refuses an empty certificate", async () => {
    await expect(createAdditionalRoot(new Uint8Array(), second(0))).rejects.toBeInstanceOf(
      DerError,
    );
  });

  test("is published at a whole second, so that the sequence changes with the roots", async () => {
    const others = [
      await createAdditionalRoot(der, second(100.1)),
      await createAdditionalRoot(await createRoot({ notAfter: second(1000) }), second(100.7)),
    ];
    const looked = [100.2, 100.8].map((n) => [
      rootsAt(others, n).join(),
      bundleSequenceAt(others, [], second(n)),
    ]);
    expect(looked[0]?.[0] === looked[1]?.[0]).toBe(looked[0]?.[1] === looked[1]?.[1]);
  });
});

describe("a retired root", () => {
  test.each<[string, number, number, readonly number[]]>([
    ["at once", 300, 300, [100, 100, 100, 300]],
    ["within a second", 300.9, 300, [100, 100, 100, 300]],
    ["on a later day", 700, 700, [100, 100, 100, 700]],
    ["after it expires", 5000, 1000, [100, 100, 100, 1000]],
    ["before it is published", 50, 50, [50, 50, 50, 50]],
  ])("leaves the bundle %s", (_, at, retiresAt, phases) => {
    const taint = retireRoot(root, second(at), second(Math.min(at, 300)));
    expect([taint.id, secondOf(taint.retiresAt)]).toEqual([root.id, retiresAt]);
    const [retired] = applyTaints([root], [taint]);
    expect(phasesOf((retired ?? root).schedule)).toEqual(phases);
    expect(publishedAuthoritiesAt([retired ?? root], second(retiresAt))).toEqual([]);
  });

  test("leaves the other roots in the bundle", async () => {
    const other = await createAdditionalRoot(
      await createRoot({ notAfter: second(1000) }),
      second(100),
    );
    const left = applyTaints([root, other], [retireRoot(root, second(300), second(300))]);
    expect(rootsAt(left, 400)).toEqual([inHex(other.roots[0])]);
  });

  test("does not leave before the operator retires it, whatever earlier instant is asked for", () => {
    const { retiresAt } = retireRoot(root, second(200), second(300));
    expect(secondOf(retiresAt)).toBe(300);
  });

  test("stays in the bundle while an authority needs it", () => {
    const authority = stub("aa", [50, 60, 500, 600], [inHex(der)]);
    const [retired] = applyTaints([root], [retireRoot(root, second(300), second(300))]);
    expect(trustBundleAt([authority, retired ?? root], second(400)).roots).toHaveLength(1);
  });
});
