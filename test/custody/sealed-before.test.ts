import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openBackup } from "../../src/cli/verbs/authority/backup-file.ts";
import { AuthorityRecord } from "../../src/custody/authority-record.ts";
import { RecordName } from "../../src/custody/authority-store.ts";
import { Kek, type KekRing } from "../../src/custody/kek.ts";
import { logKeysFor } from "../../src/custody/log-key.ts";
import type { StatementName } from "../../src/custody/record-kinds.ts";
import { KeyedStatement, Statement } from "../../src/custody/statement.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { VerifierKey } from "../../src/tlog/note/verifier-key.ts";
import { clusterLocal } from "../testkit/pki/certificates.ts";

interface SealedBefore {
  readonly kek: { readonly octets: string };
  readonly records: readonly { readonly key: string; readonly value: string }[];
  readonly backup: { readonly identity: string; readonly text: string };
  readonly logKey: Readonly<Record<"origin" | "record" | "verifierKey", string>>;
}

const vectors = new URL("../vectors/custody/sealed-records.json", import.meta.url);
const sealed = JSON.parse(readFileSync(vectors, "utf8")) as SealedBefore;
const kek = await Kek.import("k1", new Uint8Array(Buffer.from(sealed.kek.octets, "hex")));
const custodian = { trustDomain: clusterLocal, keks: [kek] as KekRing };
const newest = await Kek.import("k2", crypto.getRandomValues(new Uint8Array(32)));

const stored = sealed.records.map(({ key, value }) => {
  const [name] = RecordName.parse(key);
  if (!name) throw new Error(`no record is named ${key}`);
  return { ...name, value };
});
const statements = stored.filter(
  (record): record is typeof record & { kind: StatementName } => record.kind !== "authority",
);
const instants = (text: string): Date => new Date(text);
const [authority] = stored;
if (!authority) throw new Error("no record of an authority");

test("the authority of an earlier version opens, with the key that its certificate has", async () => {
  const issuer = await AuthorityRecord.open(authority, custodian, webCryptoProvider);
  expect(issuer.authority.id).toBe(authority.id);
  expect(issuer.authority.schedule.signsFrom).toEqual(instants("2026-03-02T00:00:00Z"));
  const { extractablePrivateKey } = await AuthorityRecord.openExtractable(authority, custodian);
  expect(extractablePrivateKey.extractable).toBe(true);
});

const said: Record<string, unknown[]> = {
  taint: [
    {
      id: authority.id,
      taintedAt: instants("2026-05-01T10:00:00Z"),
      retiresAt: instants("2026-05-03T10:00:00Z"),
    },
  ],
  root: [{ schedule: { publishedFrom: instants("2026-03-01T00:00:00Z") } }],
  request: [{ requestedAt: instants("2026-04-01T00:00:00Z") }],
  denial: [
    {
      subject: "ns/foo/sa/*",
      knownFrom: instants("2026-05-01T10:00:30.500Z"),
      until: instants("2026-06-01T00:00:00Z"),
      why: 'left "the" team; ünïcode',
    },
    { subject: "node/worker-3", knownFrom: instants("2026-05-01T10:00:30Z") },
  ],
  revocation: [
    {
      authority: authority.id,
      revokedAt: instants("2026-05-01T10:00:00Z"),
      knownFrom: instants("2026-05-01T10:01:00Z"),
      reason: "keyCompromise",
      why: "stolen",
      certificates: new Map([
        ["01b62f", 1_780_000_000],
        ["008a01", 1_780_000_001],
      ]),
    },
    { reason: "unspecified", certificates: new Map([["7f", 1_790_000_000]]) },
  ],
  backup: [{ madeAt: instants("2026-05-05T05:05:05.005Z") }],
};

test("every kind of statement is among those of an earlier version", () => {
  expect(new Set(statements.map(({ kind }) => kind))).toEqual(new Set(Object.keys(said)));
});

test.each(statements.map((record) => [RecordName.key(record).slice(0, 40), record] as const))(
  "%s of an earlier version opens as it was sealed, and is sealed to the same octets",
  async (_, record) => {
    const { kind } = record;
    const same = statements.filter((each) => each.kind === kind).indexOf(record);
    const opened = await Statement.open(kind, record, custodian);
    expect(opened).toMatchObject(said[kind]?.[same] as object);
    expect(await Statement.seal(kind, opened, custodian)).toEqual(record);
    const resealed = await Statement.reseal(record, { ...custodian, keks: [newest, kek] });
    if (!resealed) throw new Error("left as it was");
    expect(nameOf(resealed)).toEqual(nameOf(record));
  },
);

const nameOf = ({ kind, id }: RecordName): RecordName => ({ kind, id });

test("the key of a request of an earlier version opens", async () => {
  const [request] = stored.filter(({ kind }) => kind === "request");
  if (!request) throw new Error("no request");
  const { privateKey } = await KeyedStatement.open("request", request, custodian);
  expect(privateKey.algorithm).toMatchObject({ name: "ECDSA", namedCurve: "P-256" });
});

test("the key of a log of an earlier version opens, and its record stays", async () => {
  const { origin, record, verifierKey } = sealed.logKey;
  const opened = await logKeysFor(origin, custodian).open(record);
  expect(opened.record).toBe(record);
  expect(VerifierKey.format(opened.signer.key)).toBe(verifierKey);
});

test("a backup of an earlier version has all that its store had", async () => {
  const { identity, text } = sealed.backup;
  const { authorities, requests, statements: lists } = await openBackup(text, { identity });
  expect(authorities.map((each) => each.authority.id)).toEqual([authority.id]);
  expect(requests.map(({ id }) => id)).toEqual(
    stored.filter(({ kind }) => kind === "request").map(({ id }) => id),
  );
  for (const kind of ["taint", "root", "denial", "revocation"] as const) {
    const opened = statements.filter((each) => each.kind === kind);
    const held = opened.map((each) => Statement.open(kind, each, custodian));
    expect(lists[kind]).toEqual(await Promise.all(held));
  }
});
