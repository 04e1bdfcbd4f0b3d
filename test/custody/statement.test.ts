import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import { Kek, type KekRing } from "../../src/custody/kek.ts";
import { RecordError } from "../../src/custody/record-fields.ts";
import type { RecordKind } from "../../src/custody/record-kinds.ts";
import { openContent, Statement, sealContent } from "../../src/custody/statement.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { second } from "../testkit/ca/timeline.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord } from "../testkit/pki/sealed-record.ts";

const octets = crypto.getRandomValues(new Uint8Array(Kek.octets));
const [kek, spare] = [await createKek("k1", octets), await createKek("spare")];
const keks = [kek, spare] as const;
const custodian = { trustDomain: clusterLocal, keks };
const taint = { id: "ab".repeat(20), taintedAt: second(0), retiresAt: second(1.5) };
const sealedTaint = await Statement.seal("taint", taint, custodian);
const root = await AdditionalRoot.create(await createRoot({ notAfter: second(1000) }), second(10));
const sealedRoot = await Statement.seal("root", root, custodian);

type Open = (stored: StoredRecord, domain: typeof clusterLocal, ring: KekRing) => Promise<unknown>;

const openTaint: Open = (stored, trustDomain, keks) =>
  Statement.open("taint", stored, { trustDomain, keks });
const openRoot: Open = (stored, trustDomain, keks) =>
  Statement.open("root", stored, { trustDomain, keks });

async function checkOf(
  stored: StoredRecord,
  { open = openTaint, domain = clusterLocal, ring = keks as Parameters<Open>[2] } = {},
): Promise<RecordError["check"] | "opened"> {
  try {
    await open(stored, domain, ring);
    return "opened";
  } catch (error) {
    if (error instanceof RecordError) return error.check;
    throw error;
  }
}

const withText = ({ kind, id }: StoredRecord, value: string): StoredRecord => ({ kind, id, value });

const tampered = (record: StoredRecord, change: object): StoredRecord =>
  withText(record, JSON.stringify({ ...JSON.parse(record.value), ...change }));

describe("a statement opens as it was sealed", () => {
  test("as a taint, under a name that repeats its content", async () => {
    const name = [taint.id, taint.taintedAt.getTime(), taint.retiresAt.getTime()].join("-");
    expect([sealedTaint.kind, sealedTaint.id]).toEqual(["taint", name]);
    expect(await Statement.open("taint", sealedTaint, custodian)).toEqual(taint);
  });

  test("as a root, under its own id and kind", async () => {
    expect([sealedRoot.kind, sealedRoot.id]).toEqual(["root", root.id]);
    expect(await Statement.open("root", sealedRoot, custodian)).toEqual(root);
  });

  test("as any taint", async () => {
    const instants = fc.date({
      min: new Date(0),
      max: new Date("9999-12-31"),
      noInvalidDate: true,
    });
    const taints = fc.record({
      id: fc.stringMatching(/^[0-9a-f]{1,64}$/),
      taintedAt: instants,
      retiresAt: instants,
    });
    await fc.assert(
      fc.asyncProperty(taints, async (each) => {
        const sealed = await Statement.seal("taint", each, custodian);
        expect(await Statement.open("taint", sealed, custodian)).toEqual(each);
      }),
    );
  });

  test("with any content", async () => {
    // These units include halves of surrogate pairs.
    const unit = fc.nat(0xffff).map((code) => String.fromCharCode(code));
    const text = fc.string({ unit, maxLength: 20 });
    const word = text.filter(
      (name) => name !== "__proto__" && !JSON.stringify(name).startsWith('"\\'),
    );
    const said = fc.dictionary(word, text, { maxKeys: 5, noNullPrototype: true });
    const kinds = fc.constantFrom("taint" as const, "root" as const);
    await fc.assert(
      fc.asyncProperty(kinds, text, said, async (kind, id, words) => {
        const sealed = await sealContent({ kind, id }, words, custodian);
        expect((await openContent(sealed, custodian)).content).toEqual(words);
      }),
    );
  });

  test("as a root of a size that certificates have", async () => {
    const der = await createRoot({ notAfter: second(1000), paddingOctets: 20_000 });
    const large = await AdditionalRoot.create(der, second(0));
    const sealed = await Statement.seal("root", large, custodian);
    expect((await Statement.open("root", sealed, custodian)).id).toBe(large.id);
  });

  test("and is sealed to the same text each time, because nothing in it is random", async () => {
    expect(await Statement.seal("taint", taint, custodian)).toEqual(sealedTaint);
  });

  test("with its KEK imported again, at any place in the ring", async () => {
    const again = await Kek.import("k1", octets);
    const ring = { ...custodian, keks: [spare, again] as const };
    expect(await Statement.open("taint", sealedTaint, ring)).toEqual(taint);
  });
});

test("two statements that differ in any part never have the same MAC", async () => {
  const text = fc.string({ maxLength: 8 });
  const statements = fc.record({
    kind: fc.constantFrom("taint" as const, "root" as const),
    id: text,
    says: fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true }),
  });
  const macOf = async (name: Parameters<typeof sealContent>[0], says: Record<string, string>) =>
    JSON.parse((await sealContent(name, says, custodian)).value).mac;
  await fc.assert(
    fc.asyncProperty(statements, statements, async (a, b) => {
      const isSame =
        JSON.stringify([a, Object.entries(a.says)]) === JSON.stringify([b, Object.entries(b.says)]);
      expect((await macOf(a, a.says)) === (await macOf(b, b.says))).toBe(isSame);
    }),
  );
});

describe("a statement is refused", () => {
  const other = "cd".repeat(20);

  const changed = (change: object) => tampered(sealedTaint, change);
  const mac = (octets: Buffer) => ({ mac: octets.toString("base64") });

  test.each<[string, () => StoredRecord, RecordError["check"]]>([
    ["as a taint of another authority", () => ({ ...sealedTaint, id: other }), "id"],
    ["with another id inside too", () => ({ ...changed({ id: other }), id: other }), "seal"],
    ["with another spelling", () => ({ ...sealedTaint, id: taint.id.toUpperCase() }), "id"],
    ["with another trust domain", () => changed({ trustDomain: "other.local" }), "trust-domain"],
    ["with another KEK inside", () => changed({ kek: "spare" }), "seal"],
    ["of version 2", () => changed({ version: 2 }), "form"],
    ["with a field more inside", () => changed({ says: { ...says(), note: "" } }), "seal"],
    ["with its content in another order", () => changed({ says: reversed(says()) }), "seal"],
    ["with a number in its content", () => changed({ says: { taintedAt: 1 } }), "form"],
    ["with null for its content", () => changed({ says: null }), "form"],
    ["with one field more", () => changed({ note: "" }), "form"],
    ["with half of its MAC", () => changed(mac(macOf(sealedTaint).subarray(0, 16))), "seal"],
    ["with the MAC of a root", () => changed(mac(macOf(sealedRoot))), "seal"],
  ])("%s", async (_, record, check) => {
    expect(await checkOf(record())).toBe(check);
  });

  test("of more octets than any of its kind has, before anything in it is read", async () => {
    const long = { note: "a".repeat(40_000) };
    const sealed = await sealContent({ kind: "taint", id: "ab" }, long, custodian);
    await expect(openContent(sealed, custodian)).rejects.toMatchObject({ check: "form" });
  });

  test("by the trust domain that somebody has written into it", async () => {
    const domain = trustDomain("other.local");
    const moved = tampered(sealedTaint, { trustDomain: domain });
    expect(await checkOf(moved, { domain })).toBe("seal");
  });

  function says(): Record<string, string> {
    return JSON.parse(sealedTaint.value).says;
  }
  function macOf({ value }: StoredRecord): Buffer {
    return Buffer.from(JSON.parse(value).mac, "base64");
  }
  const reversed = (words: object) => Object.fromEntries(Object.entries(words).reverse());

  test("by another trust domain, and with other KEKs, even of the same id", async () => {
    expect(await checkOf(sealedTaint, { domain: trustDomain("other.local") })).toBe("trust-domain");
    expect(await checkOf(sealedTaint, { ring: [spare, spare] })).toBe("kek");
    const impostor = await createKek("k1");
    expect(await checkOf(sealedTaint, { ring: [impostor, spare] })).toBe("seal");
    expect(await checkOf(sealedTaint, { ring: [impostor, kek] })).toBe("seal");
  });

  test("as a record of another kind", async () => {
    const kinds: readonly RecordKind[] = ["taint", "root", "authority"];
    for (const kind of kinds) {
      const opened = kind === "root" ? "opened" : "seal";
      expect(await checkOf({ ...sealedRoot, kind }, { open: openRoot })).toBe(opened);
      expect(await checkOf({ ...sealedRoot, kind })).toBe(kind === "root" ? "form" : "seal");
      expect(await checkOf({ ...sealedTaint, kind }, { open: openRoot })).toBe(
        kind === "taint" ? "form" : "seal",
      );
      expect(await checkOf({ ...sealedTaint, kind }, { open: openRecord as Open })).toBe("form");
    }
    expect(await checkOf(await createRecord(kek))).toBe("form");
  });

  test("when another root's certificate was sealed under its id", async () => {
    const der = await createRoot({ notAfter: second(1000) });
    const another = { ...(await AdditionalRoot.create(der, second(10))), id: root.id };
    const sealed = await Statement.seal("root", another, custodian);
    expect(await checkOf(sealed, { open: openRoot })).toBe("id");
  });

  const publishedFrom = second(0).toISOString();

  test.each<[string, Readonly<Record<string, string>>, RecordError["check"]]>([
    ["nothing", {}, "form"],
    ["no certificate", { certificate: "AAAA", publishedFrom }, "certificate"],
    ["no instant", { certificate: "AAAA", publishedFrom: "soon" }, "form"],
    [
      "an instant without milliseconds",
      { certificate: "AAAA", publishedFrom: "2026-11-21T12:00:00Z" },
      "form",
    ],
  ])("when it is authentic and holds %s", async (_, words, check) => {
    const sealed = await sealContent({ kind: "root", id: root.id }, words, custodian);
    expect(await checkOf(sealed, { open: openRoot })).toBe(check);
    const said = await sealContent({ kind: "taint", id: taint.id }, words, custodian);
    expect(await checkOf(said)).toBe("form");
  });
});

test("a forged statement under the newest KEK is not left as it is", async () => {
  for (const record of [
    { ...tampered(sealedTaint, { says: {} }), kind: "taint" as const },
    { ...sealedTaint, kind: "root" as const },
  ])
    await expect(Statement.reseal(record, custodian)).rejects.toHaveProperty("check", "seal");
});

describe("a KEK", () => {
  test("has two keys that cannot be exported, each for its own purpose", async () => {
    expect([kek.key.extractable, kek.statementKey.extractable]).toEqual([false, false]);
    expect(kek.key.usages.toSorted()).toEqual(["decrypt", "unwrapKey", "wrapKey"]);
    expect(kek.statementKey.usages.toSorted()).toEqual(["sign", "verify"]);
  });

  test("authenticates no statement with its own octets", async () => {
    const own = await crypto.subtle.importKey(
      "raw",
      octets,
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign", "verify"],
    );
    const impostor = { ...kek, statementKey: own };
    const sealed = await Statement.seal("taint", taint, { ...custodian, keks: [impostor] });
    expect(await checkOf(sealed)).toBe("seal");
  });
});
