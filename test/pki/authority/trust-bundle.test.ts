import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AuthorityKey, NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { createRootTaint } from "../../../src/pki/authority/new-taint.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { toSpiffeBundle } from "../../../src/pki/authority/spiffe-bundle.ts";
import { Taint } from "../../../src/pki/authority/taint.ts";
import { AdditionalRoot, TrustBundle } from "../../../src/pki/authority/trust-bundle.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { phasesOf, second, secondOf, stub } from "../../testkit/ca/timeline.ts";
import { applyEdit, inHex } from "../../testkit/der/mutation.ts";
import { authorityStub, clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";
import { createRoot } from "../../testkit/pki/foreign-root.ts";

const day = (n: number): Date => new Date(Date.UTC(2026, 0, n));

/** An authority in the bundle from one day until just before another. */
const authority = (id: string, from: number, until: number, roots: readonly string[] = [id]) =>
  authorityStub(
    id,
    {
      publishedFrom: day(from),
      signsFrom: day(from),
      signsUntil: day(until),
      retiresAt: day(until),
    },
    roots,
  );

type Authorities = readonly ReturnType<typeof authority>[];
const rootsAt = (authorities: Authorities, now: Date) =>
  TrustBundle.at(authorities, now).roots.map(inHex);

test("holds a root from its publication until its retirement, in every phase between", () => {
  const authorities = [authority("aa", 5, 10)];
  expect(rootsAt(authorities, new Date(day(5).getTime() - 1))).toEqual([]);
  expect(rootsAt(authorities, day(5))).toEqual(["aa"]);
  expect(rootsAt(authorities, new Date(day(10).getTime() - 1))).toEqual(["aa"]);
  expect(rootsAt(authorities, day(10))).toEqual([]);
});

test("is empty, and so is its PEM, when there is no authority", () => {
  expect(TrustBundle.at([], day(1))).toEqual({ roots: [], pem: "" });
});

test("has its roots in the order of publication, then of ids, in any order of records", () => {
  const authorities = [
    authority("cc", 1, 30),
    authority("ab", 2, 30),
    authority("aa", 3, 30),
    authority("bb", 3, 30),
  ];
  const expected = rootsAt(authorities, day(10));
  expect(expected).toEqual(["cc", "ab", "aa", "bb"]);
  fc.assert(
    fc.property(fc.shuffledSubarray(authorities, { minLength: 4 }), (shuffled) => {
      expect(rootsAt(shuffled, day(10))).toEqual(expected);
    }),
  );
});

test("holds a shared root once, in the place that the first authority gives it", () => {
  const authorities = [
    authority("aa", 2, 30, ["0b", "0a"]),
    authority("bb", 1, 30, ["0c", "0a"]),
    authority("cc", 3, 30, ["0a", "0d"]),
  ];
  expect(rootsAt(authorities, day(10))).toEqual(["0c", "0a", "0b", "0d"]);
});

test("keeps a shared root until the last authority that needs it retires", () => {
  const authorities = [authority("aa", 1, 10, ["0a"]), authority("bb", 2, 20, ["0a"])];
  expect(rootsAt(authorities, day(15))).toEqual(["0a"]);
  expect(rootsAt(authorities, day(20))).toEqual([]);
});

test("does not reorder the list that it was given", () => {
  const authorities = [authority("bb", 2, 30), authority("aa", 1, 30)];
  TrustBundle.at(authorities, day(10));
  expect(authorities.map(({ id }) => id)).toEqual(["bb", "aa"]);
});

test("is PEM that node:crypto reads root by root", async () => {
  const create = async () =>
    (await NewAuthority.create(clusterLocal, "EC-P256", tenDays)).authority;
  const authorities = [await create(), await create()];
  const { roots, pem } = TrustBundle.at(authorities, tenDays.signsFrom);
  const blocks = pem.split(/(?<=-----END CERTIFICATE-----\n)/);
  const oracle = blocks.map((block) => inHex(new X509Certificate(block).raw));
  expect(oracle).toEqual(roots.map(inHex));
});

const sequence = (n: number): number => day(n).getTime();
const sequenceAt = (authorities: Authorities, n: number, taints: readonly Taint[] = []): number =>
  TrustBundle.sequence([TrustBundle.historyAt(authorities, taints, day(n))]);

test("the sequence is 0 before anything was published, then the last publication or retirement", () => {
  const authorities = [authority("aa", 5, 20), authority("bb", 10, 30)];
  expect(sequenceAt([], 5)).toBe(0);
  expect([4, 5, 9, 10, 19, 20, 29, 31].map((n) => sequenceAt(authorities, n))).toEqual([
    0,
    ...[5, 5, 10, 10, 20, 20, 30].map(sequence),
  ]);
});

/** Since when a record is published, for how long, its root, and its taint: since when it counts, and when it is known. */
const history = fc.record({
  from: fc.nat({ max: 40 }),
  length: fc.integer({ min: 1, max: 40 }),
  root: fc.nat({ max: 9 }),
  taint: fc.option(fc.record({ until: fc.nat({ max: 90 }), knownFrom: fc.nat({ max: 90 }) })),
});

test("the sequence never falls, and grows whenever the roots change, whenever a taint comes and a record goes", () => {
  fc.assert(
    fc.property(fc.array(history, { maxLength: 4 }), (rows) => {
      let records = rows.map(({ from, length, root, taint }, i) => ({
        ...authority(`a${i}`, from, from + length, [`0${root}`]),
        taint,
      }));
      let before = { sequence: 0, content: "" };
      for (let n = 0; n < 95; n++) {
        const retired = records.filter(({ schedule }) => schedule.retiresAt < day(n));
        const gone = TrustBundle.dispensable(retired, records, day(n));
        records = records.filter(({ id }) => !gone.includes(id));
        const taints = records.flatMap(({ id, taint }) =>
          taint && taint.knownFrom <= n
            ? [{ id, taintedAt: day(taint.until), retiresAt: day(taint.until) }]
            : [],
        );
        const sequence = sequenceAt(records, n, taints);
        const content = rootsAt(Taint.apply(records, taints), day(n)).join();
        if (content === before.content) expect(sequence).toBeGreaterThanOrEqual(before.sequence);
        else expect(sequence).toBeGreaterThan(before.sequence);
        before = { sequence, content };
      }
    }),
    { numRuns: 500 },
  );
});

test("the sequence of several stores grows with a taint in any of them", () => {
  const stores = [authority("aa", 5, 20), authority("bb", 10, 30)].map((each) => [each]);
  const taint = { id: "aa", taintedAt: day(6), retiresAt: day(6) };
  const before = TrustBundle.sequence(
    stores.map((each) => TrustBundle.historyAt(each, [], day(15))),
  );
  const after = TrustBundle.sequence(
    stores.map((each) => TrustBundle.historyAt(each, [taint], day(15))),
  );
  expect([before, after]).toEqual([sequence(10), sequence(10) + 1]);
});

const der = await createRoot({ notAfter: second(1000) });
const root = await AdditionalRoot.create(der, second(100));

const rootsPublishedAt = (published: readonly AdditionalRoot[], n: number) =>
  TrustBundle.at(published, second(n)).roots.map(inHex);

describe("an additional root", () => {
  test("has the SHA-256 of its certificate as its id", () => {
    expect(root.id).toBe(createHash("sha256").update(der).digest("hex"));
    expect(root.roots).toEqual([der]);
  });

  test("is in the bundle from its publication until it expires", () => {
    const all = [99.999, 100, 999.999, 1000].map((n) => rootsPublishedAt([root], n).length);
    expect(all).toEqual([0, 1, 1, 0]);
  });

  test("never signs, not even at the instant of its publication", () => {
    for (const n of [0, 99, 100, 100.001, 101, 999, 1000]) {
      expect(SigningAuthority.at([root], second(n))).toBeUndefined();
      expect(Schedule.phaseAt(root.schedule, second(n))).not.toBe("signing");
    }
  });

  test.each([1000, 1001, 50_000])(
    "that expired before its publication at %d never enters the bundle",
    async (n) => {
      const expired = await AdditionalRoot.create(der, second(n));
      expect([0, 999, 1000, n, n + 1].map((at) => rootsPublishedAt([expired], at).length)).toEqual([
        0, 0, 0, 0, 0,
      ]);
    },
  );

  test("that an authority also has is in the bundle once", () => {
    const authority = stub("aa", [50, 60, 500, 600], [inHex(der)]);
    expect(TrustBundle.at([authority, root], second(100)).roots).toHaveLength(1);
    expect(TrustBundle.at([authority, root], second(999)).roots).toHaveLength(1);
    expect(TrustBundle.at([authority, root], second(1000)).roots).toHaveLength(0);
  });

  test.each<[string, Parameters<typeof applyEdit>[1]]>([
    ["with a trailing octet", { at: [], after: "00" }],
    ["of version 1", { at: [0, 0], replace: "" }],
    ["without a signature", { at: [2], replace: "" }],
    ["without its validity", { at: [0, 4], replace: "" }],
  ])("refuses a certificate %s", (_, edit) => {
    const broken = applyEdit(Buffer.from(der), edit);
    expect(() => AdditionalRoot.create(broken, second(0))).toThrow(DerError);
  });

  test("refuses an empty certificate", () => {
    expect(() => AdditionalRoot.create(new Uint8Array(), second(0))).toThrow(DerError);
  });

  test("is published at a whole second, so that the sequence changes with the roots", async () => {
    const others = [
      await AdditionalRoot.create(der, second(100.1)),
      await AdditionalRoot.create(await createRoot({ notAfter: second(1000) }), second(100.7)),
    ];
    const looked = [100.2, 100.8].map((n) => [
      rootsPublishedAt(others, n).join(),
      TrustBundle.sequence([TrustBundle.historyAt(others, [], second(n))]),
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
    const taint = createRootTaint(root, second(at), second(Math.min(at, 300)));
    expect([taint.id, secondOf(taint.retiresAt)]).toEqual([root.id, retiresAt]);
    const [retired] = Taint.apply([root], [taint]);
    expect(phasesOf((retired ?? root).schedule)).toEqual(phases);
    expect(TrustBundle.authoritiesAt([retired ?? root], second(retiresAt))).toEqual([]);
  });

  test("leaves the other roots in the bundle", async () => {
    const other = await AdditionalRoot.create(
      await createRoot({ notAfter: second(1000) }),
      second(100),
    );
    const left = Taint.apply([root, other], [createRootTaint(root, second(300), second(300))]);
    expect(rootsPublishedAt(left, 400)).toEqual([inHex(other.roots[0])]);
  });

  test("does not leave before the operator retires it, whatever earlier instant is asked for", () => {
    const { retiresAt } = createRootTaint(root, second(200), second(300));
    expect(secondOf(retiresAt)).toBe(300);
  });

  test("stays in the bundle while an authority needs it", () => {
    const authority = stub("aa", [50, 60, 500, 600], [inHex(der)]);
    const [retired] = Taint.apply([root], [createRootTaint(root, second(300), second(300))]);
    expect(TrustBundle.at([authority, retired ?? root], second(400)).roots).toHaveLength(1);
  });
});

const rootOf = async (key: AuthorityKey): Promise<Uint8Array<ArrayBuffer>> =>
  (await NewAuthority.create(clusterLocal, key, tenDays)).authority.certificate.der;

const istioRoot = new X509Certificate(readFileSync("test/vectors/istio-cacerts/root-cert-alt.pem"));

test.each([
  ["EC-P256", await rootOf("EC-P256")],
  ["EC-P384", await rootOf("EC-P384")],
  ["RSA-2048", await rootOf("RSA-2048")],
  ["Istio's RSA-4096", new Uint8Array(istioRoot.raw)],
] as const)(
  "a root of %s has the parameters that node:crypto exports, and no others",
  async (_, root) => {
    const { keys: entries } = await toSpiffeBundle([root], 1, 300);
    const x5c = [Buffer.from(root).toString("base64")];
    const jwk = new X509Certificate(root).publicKey.export({ format: "jwk" });
    expect(entries).toEqual([{ use: "x509-svid", ...jwk, x5c }]);
    expect(JSON.parse(JSON.stringify(entries))).toEqual([{ use: "x509-svid", ...jwk, x5c }]);
  },
);

test("a bundle has its roots in their order, each with one certificate", async () => {
  const roots = [await rootOf("EC-P384"), await rootOf("EC-P256")];
  const bundle = await toSpiffeBundle(roots, 1_767_225_600, 3600);
  expect(bundle.spiffe_sequence).toBe(1_767_225_600);
  expect(bundle.spiffe_refresh_hint).toBe(3600);
  expect(bundle.keys.map(({ x5c }) => x5c)).toEqual(
    roots.map((root) => [Buffer.from(root).toString("base64")]),
  );
  expect(bundle.keys.every((key) => !("kid" in key))).toBe(true);
});

test("a bundle of no roots has no keys", async () => {
  expect(await toSpiffeBundle([], 0, 300)).toEqual({
    spiffe_sequence: 0,
    spiffe_refresh_hint: 300,
    keys: [],
  });
});

test("refuses a root that is not a certificate", async () => {
  await expect(toSpiffeBundle([new Uint8Array([0x30, 0])], 1, 300)).rejects.toThrow();
});
