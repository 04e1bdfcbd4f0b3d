import { rm, writeFile } from "node:fs/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { Mint } from "../../../../src/ca/mint.ts";
import { storesAt } from "../../../../src/cli/session/stores.ts";
import { certificateCommand } from "../../../../src/cli/verbs/certificate/certificate.ts";
import { formatCandidates } from "../../../../src/cli/verbs/certificate/revoke.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import type { OpenAuthority } from "../../../../src/pki/authority/signing-authority.ts";
import { Pem } from "../../../../src/pki/encoding/pem.ts";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { createTestIssuer } from "../../../testkit/pki/certificates.ts";
import { createCa, writeCacerts } from "../../../testkit/pki/plugged-in.ts";
import { type MemoryTerminal, plainScreen } from "../../../testkit/programs/memory-terminal.ts";
import { eventually } from "../../../testkit/time/eventually.ts";
import { Operator } from "../../operator.ts";

const now = new Date("2026-11-21T12:00:00Z");
const day = 24 * 3600;

let operator: Operator;
let issuer: OpenAuthority;

const certificate = (...words: readonly string[]) => operator.run(certificateCommand, words);
const revoke = (...words: readonly string[]) => certificate("revoke", ...words, "--yes");
const list = async () => JSON.parse(await certificate("revoked", "--json"));

const leafIn = (file: string, signer: OpenAuthority | undefined, endsAfter?: number) =>
  operator.leaf(file, signer, endsAfter);

beforeEach(async () => {
  operator = await Operator.founded(now, 'PROPAGATION_INTERVAL = "30s"');
  await operator.configure('CRL = "on"');
  const [first] = await operator.issuers();
  if (first) issuer = first;
});

const own = `01${"ab".repeat(16)}`;

describe("certificate revoke", () => {
  test("counts from the answer to its question until every process knows of it", async () => {
    await leafIn("leaf.pem", issuer);
    const terminal = operator.terminalWith({ isTTY: true });
    const words = ["revoke", operator.file("leaf.pem")];
    const running = operator.run(certificateCommand, words, terminal);
    await eventually(async () => expect(terminal.said).toContain("[y/N]"));
    operator.now = addSeconds(now, 60);
    terminal.type("y\r");
    expect(await running).toContain("knows of it by 2026-11-21T12:01:30.000Z.");
    expect((await list())[0].revokedAt).toBe("2026-11-21T12:01:00.000Z");
  });

  test("names no instant before one interval has passed since it was written", async () => {
    await leafIn("leaf.pem", issuer);
    const isWritten = (): boolean => terminal.said.includes("certificates-revoked");
    const start = new Date("2026-11-21T12:00:00.400Z");
    const clock = (): Date => (isWritten() ? addSeconds(start, 7) : start);
    const terminal: MemoryTerminal = operator.terminalWith({ clock });
    const words = ["revoke", operator.file("leaf.pem"), "--yes"];
    expect(await operator.run(certificateCommand, words, terminal)).toContain(
      "knows of it by 2026-11-21T12:00:38.000Z.",
    );
  });

  test("revokes nothing, and lists nothing, with a KEK that opens no authority of the store", async () => {
    const serial = await leafIn("leaf.pem", issuer);
    operator.terminal.setVariable("KEK", randomKek());
    const fault = /none opens with this KEK\. Compare KEK .*: nothing was written$/;
    for (const each of [serial, operator.file("leaf.pem")])
      await expect(revoke(each)).rejects.toThrow(fault);
    await expect(list()).rejects.toThrow("the store holds records that do not open: 1");
  });

  test("revokes the certificate in a file, says what is next, and lists it", async () => {
    const serial = await leafIn("leaf.pem", issuer);
    const told = await revoke(
      ...[operator.file("leaf.pem"), "--reason", "keyCompromise", "--why", "case 117"],
    );
    expect(told).toMatch(new RegExp(`^${serial} +spiffe://cluster.local/ns/shop/sa/cart `, "m"));
    expect(told).toContain("Every process of the CA knows of it by 2026-11-21T12:00:30.000Z.");
    expect(told).toContain("rampart deny add spiffe://cluster.local/ns/shop/sa/cart");
    const report = {
      serial,
      authority: issuer.authority.id,
      revokedAt: now.toISOString(),
      expiresAt: addSeconds(now, day).toISOString(),
      reason: "keyCompromise",
      why: "case 117",
    };
    expect(await list()).toEqual([{ ...report, stated: "store" }]);
    const lines = /^REVOKED = \[\n[^\]]*\][^\]]*\n\]$/m.exec(told)?.[0] ?? "";
    await operator.configure('CRL = "on"', lines);
    expect(await list()).toEqual([
      { ...report, stated: "store" },
      { ...report, stated: "configuration" },
    ]);
    expect(await certificate("revoked")).toMatch(/ keyCompromise +configuration +case 117$/m);
    // What only the configuration has is revoked, too, and stands in the next line for it.
    await rm(operator.file("store/revocations"), { recursive: true });
    expect(await revoke(operator.file("leaf.pem"))).toBe("There is nothing to revoke.");
    const another = await leafIn("another.pem", issuer);
    const [next = ""] =
      /^REVOKED = .*^\]$/ms.exec(await revoke(operator.file("another.pem"))) ?? [];
    for (const each of [serial, another]) expect(next).toContain(`serials = ["${each}"]`);
  });

  test("says that verifiers do not learn of it without CRLs", async () => {
    await operator.configure();
    await leafIn("leaf.pem", issuer);
    expect(await revoke(operator.file("leaf.pem"))).toContain("CRL is off");
  });

  test("asks, and without a terminal says how to answer; writes nothing in a dry run", async () => {
    await leafIn("leaf.pem", issuer);
    await expect(certificate("revoke", operator.file("leaf.pem"))).rejects.toThrow(/add --yes/);
    const told = await certificate("revoke", operator.file("leaf.pem"), "--dry-run");
    expect(told).toContain("Nothing was written");
    expect(await list()).toEqual([]);
  });

  test("revokes a certificate once", async () => {
    await leafIn("leaf.pem", issuer);
    await revoke(operator.file("leaf.pem"));
    expect(await revoke(operator.file("leaf.pem"))).toBe("There is nothing to revoke.");
    expect(operator.terminal.said).toContain(
      "left out 1 of the chosen certificates: revoked already\n",
    );
    expect(await list()).toHaveLength(1);
  });

  test("leaves out one that has expired, and not one in its last second", async () => {
    await leafIn("leaf.pem", issuer, -1);
    await leafIn("last.pem", issuer, 0);
    await revoke(operator.file("leaf.pem"), operator.file("last.pem"));
    expect(operator.terminal.said).toContain("left out 1 of the chosen certificates: expired\n");
    expect(await list()).toMatchObject([{ expiresAt: now.toISOString() }]);
  });

  test("of two authorities states each one's certificates apart, and asks whose a serial number is", async () => {
    operator.now = addSeconds(now, 60);
    await operator.authority("rotate", "--yes");
    operator.now = addSeconds(now, 120);
    const [first, second] = await operator.issuers();
    const [one = "", other = ""] = [first, second].map((each) => each?.authority.id);
    await expect(revoke(own)).rejects.toThrow("2 authorities may have signed");
    await revoke(own, "--authority", other.slice(0, 8));
    const serials = [
      await leafIn("a.pem", first, day - 120),
      await leafIn("b.pem", first, 3 * day - 120),
      await leafIn("c.pem", second, 2 * day - 120),
    ];
    const files = ["a.pem", "b.pem", "c.pem"].map((file) => operator.file(file));
    const told = await revoke(...files);
    const [line = ""] = /^.*serials = \["\w+", "\w+"\].*$/m.exec(told) ?? [];
    expect(line).toContain('until = "2026-11-24T12:00:00Z"');
    const revoked = new Map<string, string>();
    for (const { serial, authority } of await list()) revoked.set(serial, authority);
    const authorities = [own, ...serials].map((serial) => revoked.get(serial));
    expect(authorities).toEqual([other, one, one, other]);
  });

  test.each([
    ["statements", 200, 1, /holds 200 revocations already, of 200 at most/],
    ["certificates", 50, 4_000, /more than 200000 certificates would be revoked: taint/],
  ])("refuses more %s than a store takes", async (_, statements, count, sentence) => {
    const { mint } = await storesAt(await operator.deployment(), now);
    const content = { authority: issuer.authority.id, revokedAt: now, knownFrom: now };
    const state = (_: unknown, i: number) => {
      const serials = Array.from({ length: count }, (_, j) => (i * count + j).toString(16));
      const certificates = new Map(
        serials.map((serial) => [`01${serial.padStart(32, "0")}`, now.getTime() / 1000]),
      );
      const statement = { ...content, certificates, reason: "unspecified" } as const;
      return Mint.storeStatement(mint, "revocation", statement);
    };
    await Promise.all(Array.from({ length: statements }, state));
    await leafIn("leaf.pem", issuer);
    await expect(revoke(operator.file("leaf.pem"))).rejects.toThrow(sentence);
  });

  test("takes a serial number of any form of an authority that was imported", async () => {
    await operator.configure();
    await operator.moveTo("imported");
    const ca = await createCa("O=mesh");
    const source = await writeCacerts(operator.file("."), ca, { chain: "" });
    await operator.authority("import", source);
    await revoke("01ab");
    expect(await list()).toMatchObject([{ serial: "01ab" }]);
  });

  test.each([
    own,
    own.slice(1).toUpperCase(),
    `0x00${own}`,
    own.replace(/..(?=.)/g, "$&:"),
    `${BigInt(`0x${own}`)}`,
  ])("takes the serial number %s alone, for as long as a leaf can last", async (text) => {
    await revoke(text);
    const expiresAt = addSeconds(now, 90 * day).toISOString();
    expect(await list()).toMatchObject([{ serial: own, expiresAt, reason: "unspecified" }]);
  });

  test.each(["01ab", "1234567890", own.slice(2), `02${own.slice(2)}`])(
    "refuses the serial number %s, which its authority cannot have given",
    async (text) => {
      await expect(revoke(text)).rejects.toThrow(/this CA cannot have chosen it/);
      expect(await list()).toEqual([]);
    },
  );

  test("takes the end of a serial number's certificate", async () => {
    await revoke(own, "--expires-at", "2026-11-22T12:00:00Z");
    expect(await list()).toMatchObject([{ expiresAt: "2026-11-22T12:00:00.000Z" }]);
  });

  test.each<[string, readonly string[], RegExp]>([
    ["nothing", [], /say which certificates/],
    ["the serial number 0", ["00:00"], /00:00 is no serial number/],
    ["a serial number of 21 octets", ["ab".repeat(21)], /is no serial number: .*20 octets/],
    ["a search without a log", ["--node", "worker-3"], /name the log/],
    ["renewals without a log", ["01ab", "--with-renewals"], /name the log/],
    ["a file that is not there", ["missing.pem"], /missing\.pem/],
    ["an unknown authority", ["01ab", "--authority", "ffff"], /no authority's id begins with ffff/],
    ["an end that is no instant", ["01ab", "--expires-at", "soon"], /--expires-at must be/],
    ["a note of two lines", ["01ab", "--why", "a\nb"], /--why must be one line/],
    ["a long note", ["01ab", "--why", "x".repeat(201)], /at most 200 characters/],
    ["the store of a signer", ["01ab", "--signer", "team-a"], /SIGNERS has no signer|leave out/],
  ])("refuses %s", async (_, words, sentence) => {
    const revoking = revoke(...words);
    await expect(revoking).rejects.toThrow(sentence);
    await expect(revoking).rejects.toBeInstanceOf(OperatorError);
    expect(await list()).toEqual([]);
  });

  test("refuses an unknown reason", async () => {
    await expect(revoke("01ab", "--reason", "certificateHold")).rejects.toThrow(/Allowed choices/);
  });

  test("refuses a certificate of another CA, and one of an authority", async () => {
    const { schedule } = issuer.authority;
    const foreign = await createTestIssuer("EC-P256", schedule);
    // Under its own names, and under those of the authority.
    for (const signer of [foreign, { ...issuer, signingKey: foreign.signingKey }]) {
      await leafIn("foreign.pem", signer);
      await expect(revoke(operator.file("foreign.pem"))).rejects.toThrow(/none of the authorities/);
    }
    const root = Pem.format("CERTIFICATE", issuer.authority.certificate.der);
    await writeFile(operator.file("root.pem"), root);
    await expect(revoke(operator.file("root.pem"))).rejects.toThrow(/rampart authority taint/);
  });
});

test("of more certificates than a screen has, the last are shown, and all are counted", () => {
  const one = { authority: "a", serialNumber: "01", notAfter: now };
  const shown = formatCandidates(plainScreen(), Array(101).fill(one));
  expect(shown).toMatch(/^1 certificates, and these:\n/);
  expect(shown.split("\n")).toHaveLength(102);
});

test("certificate revoked says that there is none", async () => {
  expect(await certificate("revoked")).toBe("No certificate is revoked.");
});
