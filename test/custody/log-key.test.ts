import { expect, test } from "vitest";
import type { Kek, KekRing } from "../../src/custody/kek.ts";
import { logKeysFor } from "../../src/custody/log-key.ts";
import { CaError } from "../../src/foundation/errors.ts";
import { openCheckpointText } from "../../src/tlog/note/checkpoint.ts";
import { formatNote } from "../../src/tlog/note/note.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { createKek } from "../testkit/pki/sealed-record.ts";
import { refusalOf } from "../testkit/refusal.ts";

const [kek, newer, stranger] = await Promise.all(["k1", "k2", "k1"].map((id) => createKek(id)));
if (!kek || !newer || !stranger) throw new Error("no KEK");
const origin = "log.example.com/2026/0";
const keysFor = (keks: KekRing, log = origin, domain = clusterLocal) =>
  logKeysFor(log, { trustDomain: domain, keks });
const keys = keysFor([kek]);
const created = await keys.create();

test("a stored key signs checkpoints that the first one's reader accepts", async () => {
  const { signer } = await keys.open(created.record);
  const text = `${origin}\n0\n${"A".repeat(43)}=\n`;
  const note = formatNote({ text, signatures: [await signer.sign(text)] });
  expect((await openCheckpointText(note, created.signer.key)).size).toBe(0);
});

test("the record keeps the key to itself", () => {
  expect(Object.keys(JSON.parse(created.record))).toEqual([
    "version",
    "id",
    "trustDomain",
    "kek",
    "publicKey",
    "iv",
    "sealedKey",
  ]);
});

test("a record stays as it is under the newest KEK, and is sealed anew under a newer one", async () => {
  expect((await keys.open(created.record)).record).toBe(created.record);
  const { record } = await keysFor([newer, kek]).open(created.record);
  expect(JSON.parse(record)).toMatchObject({ kek: "k2" });
  const { signer } = await keysFor([newer]).open(record);
  expect(signer.key).toEqual(created.signer.key);
});

test.each([
  ["another log", keysFor([kek], "log.example.com/2026/1")],
  ["another trust domain", keysFor([kek], origin, trustDomain("other.local"))],
  ["another KEK of the same name", keysFor([stranger])],
  ["other KEKs", keysFor([newer])],
])("a record does not open for %s", async (_, others) => {
  await expect(others.open(created.record)).rejects.toThrow();
});

test("a record does not open for another log whose name somebody has written into it", async () => {
  const id = "log.example.com/2026/1";
  const moved = JSON.stringify({ ...JSON.parse(created.record), id });
  await expect(keysFor([kek], id).open(moved)).rejects.toThrow("seal");
});

test("no key of a log signs while its KEK is not held, whether it was made, opened or sealed anew", async () => {
  let isHeld = true;
  const held = (of: Kek): Kek => ({
    id: of.id,
    statementKey: of.statementKey,
    get key() {
      if (isHeld) return of.key;
      throw new CaError({ reason: "kek-unavailable" }, "the KEK is not open");
    },
  });
  const leased = (...keks: [Kek, ...Kek[]]) => keysFor(keks);
  const made = await leased(held(kek)).create();
  const signers = [
    made,
    await leased(held(kek)).open(made.record),
    await leased(held(newer), held(kek)).open(made.record),
  ];
  for (const { signer } of signers) {
    isHeld = true;
    await signer.sign("text");
    isHeld = false;
    expect(await refusalOf(() => signer.sign("text"))).toEqual({ reason: "kek-unavailable" });
  }
});
