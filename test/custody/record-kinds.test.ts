import { expect, test } from "vitest";
import { RevocationContent, statementKinds } from "../../src/custody/record-kinds.ts";
import { Statement, sealContent } from "../../src/custody/statement.ts";
import { createKekRing } from "../testkit/ca/sealed-authorities.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";

const custodian = { trustDomain: clusterLocal, keks: await createKekRing("k1") };
const revocation: RevocationContent = {
  authority: "ab".repeat(20),
  revokedAt: new Date("2026-11-22T06:40:00Z"),
  knownFrom: new Date("2026-11-22T06:50:00Z"),
  reason: "keyCompromise",
  why: "case 117",
  certificates: new Map([
    ["01ab", 1_795_000_000],
    ["00f1", 1_795_000_001],
  ]),
};
const open = async (says: Readonly<Record<string, string>>, id = "ab") => {
  const stored = await sealContent({ kind: "revocation", id }, says, custodian);
  return Statement.open("revocation", stored, custodian);
};

test("opens as it was sealed", async () => {
  const stored = await Statement.seal("revocation", revocation, custodian);
  expect(await Statement.open("revocation", stored, custodian)).toEqual(revocation);
});

test("a statement holds as many certificates as it may, with the longest serial numbers", async () => {
  const certificates = new Map(
    Array.from({ length: RevocationContent.maximumCertificates }, (_, i): [string, number] => [
      `01${i.toString(16).padStart(38, "0")}`,
      99_999_999_999,
    ]),
  );
  const stored = await Statement.seal("revocation", { ...revocation, certificates }, custodian);
  expect(stored.value.length).toBeLessThan(250 * 1024);
  const opened = await Statement.open("revocation", stored, custodian);
  expect(opened.certificates.size).toBe(RevocationContent.maximumCertificates);
});

test("refuses a statement under the name of another", async () => {
  await expect(open(statementKinds.revocation.content(revocation))).rejects.toMatchObject({
    check: "id",
  });
});

test.each<[string, string, string | undefined]>([
  ["an unknown reason", "reason", "certificateHold"],
  ["no reason", "reason", undefined],
  ["an authority that is no id", "authority", "x"],
  ["no instant", "revokedAt", "today"],
  ["no certificates", "certificates", ""],
  ["a serial number twice", "certificates", "01ab:1,01ab:2"],
  ["a serial number without an end", "certificates", "01ab"],
  ["a negative serial number beside a good one", "certificates", "01ab:1,ff:1"],
  ["another member", "until", "2026-11-22T06:40:00.000Z"],
])("refuses %s", async (_, name, value) => {
  const { [name]: __, ...says } = statementKinds.revocation.content(revocation) as Record<
    string,
    string
  >;
  const changed = value === undefined ? says : { ...says, [name]: value };
  await expect(open(changed)).rejects.toMatchObject({ check: "form" });
});

test.each(["01", "7f", "0080", "00ff01", "01".repeat(20), `00${"f".repeat(38)}`])(
  "%s is a serial number",
  (text) => {
    expect(RevocationContent.isSerialNumber(text)).toBe(true);
  },
);

test.each(["", "0", "00", "0001", "80", "0x01", "01:ab", "01AB", "01".repeat(21), "1ab"])(
  "%j is none",
  (text) => {
    expect(RevocationContent.isSerialNumber(text)).toBe(false);
  },
);
