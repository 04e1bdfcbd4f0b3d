import {
  armor,
  Decrypter,
  Encrypter,
  generateX25519Identity,
  identityToRecipient,
} from "age-encryption";
import { beforeAll, describe, expect, test } from "vitest";
import { Mint, mintTokenKey } from "../../../../src/ca/mint.ts";
import { OpenedStore } from "../../../../src/ca/opened-store.ts";
import { trustRoot } from "../../../../src/ca/rotation/adopt.ts";
import { RequestedIntermediate } from "../../../../src/ca/rotation/intermediate-request.ts";
import {
  type BackupKey,
  openBackup,
  restoreBackup,
  sealBackup,
} from "../../../../src/cli/verbs/authority/backup-file.ts";
import { summarizeBackup } from "../../../../src/cli/verbs/authority/restore-plan.ts";
import type { KekRing } from "../../../../src/custody/kek.ts";
import { createRootTaint, createTaint } from "../../../../src/pki/authority/new-taint.ts";
import { JsonWebSignature } from "../../../../src/pki/jose/json-web-signature.ts";
import { TokenKey } from "../../../../src/pki/jose/token-key.ts";
import { TrustDomain } from "../../../../src/pki/spiffe-id.ts";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { rootCertificates } from "../../../fuzz/corpus/certificates.ts";
import {
  authoritiesIn,
  createMemoryMint,
  istioPhaseLengths as lengths,
  type MemoryMint,
} from "../../../testkit/ca/memory-mint.ts";
import { createMemorySession } from "../../../testkit/ca/memory-session.ts";
import { createKekRing, scheduleAfter } from "../../../testkit/ca/sealed-authorities.ts";
import { verifiedByNode } from "../../../testkit/callers/token-oracle.ts";
import { applyEdit } from "../../../testkit/der/mutation.ts";
import { operatorErrorOf } from "../../../testkit/pki/plugged-in.ts";

const now = new Date("2026-11-21T12:00:00Z");
const day = 86_400;

const [corpusRoot = Buffer.alloc(0)] = rootCertificates;
const unreadableRoot = applyEdit(corpusRoot, { at: [0, 5, 0, 0, 1], replace: "0c02c328" });

const authoritySchedule = scheduleAfter(now, [0, 0, 90 * day, 180 * day]);
const keySchedule = scheduleAfter(now, [0, 0, 28 * day, 29 * day]);

let keks: KekRing;
let identity: string;
let recipient: string;
/** A store with one of each: an EC authority, a tainted RSA authority, an additional root, and a removed one. */
let full: MemoryMint;
let namesakes: MemoryMint;

beforeAll(async () => {
  keks = await createKekRing();
  identity = await generateX25519Identity();
  recipient = await identityToRecipient(identity);
  full = createMemoryMint(keks);
  await Mint.mintAuthority(full, authoritySchedule);
  const rsaMint = { ...full, authorityKey: "RSA-2048" } as const;
  await Mint.mintAuthority(rsaMint, scheduleAfter(now, [1, 1, 90 * day, 180 * day]));
  namesakes = createMemoryMint(keks);
  for (let i = 0; i < 2; i++) await Mint.mintAuthority(namesakes, authoritySchedule);
  for (const { certificate } of await authoritiesIn(namesakes)) {
    await trustRoot(full, certificate.der, now);
  }
  const store = await opened(full);
  const rsa = store.authorities.find(({ publicKey }) => publicKey.algorithm.startsWith("RSA"));
  const [root] = store.additionalRoots;
  if (!rsa || !root) throw new Error("the store lacks something");
  const taint = createTaint(store, rsa.id, "with-last-leaf", lengths, addSeconds(now, 60));
  await Mint.recordTaint(full, taint);
  await Mint.recordTaint(full, createRootTaint(root, addSeconds(now, day), now));
  const known = { knownFrom: now, why: "stolen" };
  await Mint.storeStatement(full, "denial", {
    ...known,
    subject: "node/a",
    until: root.schedule.retiresAt,
  });
  const revoked = { ...known, revokedAt: now, reason: "keyCompromise" } as const;
  const certificates = new Map([["01", now.getTime() / 1000]]);
  await Mint.storeStatement(full, "revocation", { ...revoked, authority: rsa.id, certificates });
  for (const age of [0, 60]) {
    const asking = { ...full, authorityRoot: "offline" } as const;
    await RequestedIntermediate.request(asking, addSeconds(now, age));
  }
  for (const algorithm of ["ES256", "RS256"] as const)
    await mintTokenKey(full, algorithm, keySchedule);
});

const opened = async (mint: MemoryMint): Promise<OpenedStore> =>
  OpenedStore.open(await mint.store.load(), mint);

/** The content of a store, in a fixed order and without its private keys. */
async function contentOf(mint: MemoryMint) {
  const store = await opened(mint);
  const { additionalRoots, taints, requests, denials, revocations, refusals } = store;
  const byId = (a: { id: string }, b: { id: string }) => a.id.localeCompare(b.id);
  return {
    authorities: store.authorities
      .map(({ id, certificate, intermediates, roots, schedule }) => {
        return { id, der: certificate.der, intermediates, roots, schedule };
      })
      .toSorted(byId),
    additionalRoots: additionalRoots.toSorted(byId),
    taints: taints.toSorted(byId),
    requests: requests
      .map(({ id, requestedAt, csr, publicKey }) => ({ id, requestedAt, csr, publicKey }))
      .toSorted(byId),
    tokenKeys: store.tokenKeys.map(({ privateKey: _, ...key }) => key).toSorted(byId),
    denials: denials.map(({ subject, knownFrom, until, why }) => [subject, knownFrom, until, why]),
    revocations: revocations.map(({ authority, certificates }) => [authority, certificates]),
    refusals,
  };
}

const restoreInto = async (mint: MemoryMint, backup: string, key: BackupKey): Promise<void> =>
  restoreBackup(createMemorySession(mint, now), await openBackup(backup, key));

const write = (mint: MemoryMint): Promise<string> =>
  sealBackup(createMemorySession(mint, now), { recipients: [recipient] });

/** What an operator reads of a backup before it is restored. */
async function summaryIn(mint: MemoryMint, backup: string, at = now): Promise<string> {
  const content = await openBackup(backup, { identity });
  return summarizeBackup(content, { store: await opened(mint), configuredTaints: [], now: at });
}

/** Any text, encrypted to the recipient. */
async function locked(content: string): Promise<string> {
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  return armor.encode(await encrypter.encrypt(content));
}

interface Content {
  version: number;
  authorities: { certificate: string; privateKey: string; roots: string[]; schedule: object }[];
  additionalRoots: { certificate: string }[];
  taints: { id: string }[];
  tokenKeys: { spki: string; privateKey: string }[];
  requests: { csr: string; privateKey: string; requestedAt: string }[];
}

async function unlocked(mint: MemoryMint): Promise<string> {
  const decrypter = new Decrypter();
  decrypter.addIdentity(identity);
  return decrypter.decrypt(armor.decode(await write(mint)), "text");
}

/** The backup with changed content: everybody who knows the recipient can encrypt one. */
async function altered(change: (content: Content) => unknown, mint = full): Promise<string> {
  const content = JSON.parse(await unlocked(mint)) as Content;
  change(content);
  return locked(JSON.stringify(content));
}

test("restores what a store has unchanged, under another KEK", async () => {
  const restored = createMemoryMint(await createKekRing("k2"));
  await restoreInto(restored, await write(full), { identity });
  const content = await contentOf(restored);
  expect(content).toEqual(await contentOf(full));
  expect(restored.store.records.size).toBe(12);
  expect([content.denials.length, content.revocations.length]).toEqual([1, 1]);
  // No authority is back before its taint.
  const kinds = [...restored.store.records.keys()].map((name) => name.replace(/\/.*/, ""));
  expect(kinds.lastIndexOf("taint")).toBeLessThan(kinds.indexOf("authority"));
  // Both issuers can sign, because their keys are restored.
  expect((await opened(restored)).openAuthorities).toHaveLength(2);
});

test("restores the keys of requests and of tokens, which sign what their public keys verify", async () => {
  const restored = createMemoryMint(await createKekRing("k2"));
  await restoreInto(restored, await write(full), { identity });
  const { requests, tokenKeys } = await opened(restored);
  for (const request of requests) {
    const [one, other] = await Promise.all(
      [full, restored].map(async (mint) =>
        crypto.subtle.exportKey("pkcs8", await RequestedIntermediate.keyOf(mint, request)),
      ),
    );
    expect(one).toEqual(other);
  }
  for (const key of tokenKeys) {
    const claims = { iss: "https://ca.test", sub: "spiffe://a/b", aud: ["a"], jti: "1" };
    const token = await JsonWebSignature.sign(key, { ...claims, iat: 0, exp: 1 });
    const keys = [await TokenKey.toJwk(key)];
    expect(verifiedByNode(token, { keys })?.header["kid"]).toBe(key.id);
  }
  expect([requests.length, tokenKeys.length]).toEqual([2, 2]);
});

const passphrase = "correct horse battery";

test("is locked by a passphrase, which age stretches with scrypt", async () => {
  const backup = await sealBackup(createMemorySession(full, now), { passphrase });
  const header = new TextDecoder("latin1").decode(armor.decode(backup));
  const [, logN] = /^-> scrypt \S+ (\d+)$/m.exec(header) ?? [];
  expect(Number(logN)).toBeGreaterThanOrEqual(18);
});

test("opens by its passphrase, and does not open by another passphrase", async () => {
  const encrypter = new Encrypter();
  encrypter.setPassphrase(passphrase);
  encrypter.setScryptWorkFactor(10);
  const backup = armor.encode(await encrypter.encrypt(await unlocked(full)));
  expect((await openBackup(backup, { passphrase })).authorities).toHaveLength(2);
  expect(await operatorErrorOf(() => openBackup(backup, { passphrase: "wrong" }))).toEqual([
    "the backup cannot be decrypted: it is damaged, or the passphrase or identity is wrong",
  ]);
});

test("has nothing in plain text but age's header", async () => {
  const backup = await write(full);
  expect(backup.startsWith("-----BEGIN AGE ENCRYPTED FILE-----\n")).toBe(true);
  const octets = Buffer.from(armor.decode(backup)).toString("latin1");
  expect(octets).not.toMatch(/rampart|cluster\.local|authorities|privateKey/);
});

test("has the time of its writing; a backup of an earlier version lacks it, and opens", async () => {
  expect((await openBackup(await write(full), { identity })).writtenAt).toEqual(now);
  const earlier = await altered((content) => Reflect.deleteProperty(content, "writtenAt"));
  const said = await summaryIn(full, earlier);
  expect(said.split("\n")[0]).toBe("The backup does not say when it was written.");
});

test("names the open requests and the keys for tokens before it is restored", async () => {
  const said = await summaryIn(createMemoryMint(keks), await write(full));
  expect(said).toMatch(/^Open requests in it: [0-9a-f]{12}, [0-9a-f]{12}\.$/m);
  expect(said).toMatch(/^Keys for tokens in it: [0-9a-f]{12}, [0-9a-f]{12}\.$/m);
});

test.each([
  [-3600, "which is in the future by this clock."],
  [0, "0 hours ago."],
  [3600, "1 hour ago."],
  [day - 1, "23 hours ago."],
  [400 * day, "400 days ago."],
])("prints its age after %d seconds", async (age, end) => {
  const said = await summaryIn(full, await write(full), addSeconds(now, age));
  expect(said.split("\n")[0]).toBe(`The backup was written at 2026-11-21 12:00Z, ${end}`);
});

test("changes nothing when it is restored a second time", async () => {
  const restored = createMemoryMint(keks);
  const backup = await write(full);
  await restoreInto(restored, backup, { identity });
  await restoreInto(restored, backup, { identity });
  expect(await contentOf(restored)).toEqual(await contentOf(full));
});

test("takes back no taint of the store when it is restored, and makes none milder", async () => {
  const milder = createMemoryMint(keks);
  await Mint.mintAuthority(milder, scheduleAfter(now, [0, 0, 90 * day, 180 * day]));
  const [authority] = await authoritiesIn(milder);
  if (!authority) throw new Error("nothing was minted");
  const untainted = await write(milder);
  const store = await opened(milder);
  const mild = createTaint(store, authority.id, "with-last-leaf", lengths, now);
  await Mint.recordTaint(milder, mild);
  const tainted = await write(milder);
  const strict = createTaint(store, authority.id, "immediately", lengths, addSeconds(now, 600));
  await Mint.recordTaint(milder, strict);
  for (const backup of [untainted, tainted]) {
    await restoreInto(milder, backup, { identity });
    expect((await opened(milder)).taints).toEqual([mild, strict]);
  }
});

test("refuses to restore into another trust domain, and writes nothing", async () => {
  const trustDomain = TrustDomain.parse("other.test") as TrustDomain;
  const other = createMemoryMint(keks, { trustDomain });
  const backup = await write(full);
  expect(await operatorErrorOf(() => restoreInto(other, backup, { identity }))).toEqual([
    "the backup is of trust domain cluster.local, not other.test",
  ]);
  expect(other.store.records.size).toBe(0);
});

test("refuses to write a backup of a store with a record that does not open, or of an empty one", async () => {
  const broken = createMemoryMint(keks);
  expect(await operatorErrorOf(() => write(broken))).toEqual(["the store holds no authority"]);
  for (const [name, value] of full.store.records) broken.store.records.set(name, value);
  broken.store.records.set(`taint/${"ab".repeat(20)}`, "broken");
  expect(await operatorErrorOf(() => write(broken))).toEqual([
    "the store holds records that do not open: 1",
  ]);
});

test("refuses an invalid age recipient, and does not repeat it", async () => {
  for (const word of ["age1nonsense", "AGE-SECRET-KEY-1ABC", ""]) {
    const lock = { recipients: [recipient, word] };
    const lines = await operatorErrorOf(() => sealBackup(createMemorySession(full, now), lock));
    expect(lines).toEqual(["a recipient is not an age public key (age1…)"]);
  }
});

const swap = (text: string, at: number): string =>
  `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;

test("refuses a backup that was changed or cut, or a wrong key", async () => {
  const backup = await write(full);
  const lines = backup.split("\n");
  const stranger = await generateX25519Identity();
  const attempts: readonly [string, BackupKey][] = [
    ...[40, 400, Math.floor(backup.length / 2)].map(
      (at) => [swap(backup, at), { identity }] as [string, BackupKey],
    ),
    [lines.toSpliced(5, 1).join("\n"), { identity }],
    [backup.slice(0, backup.length / 2), { identity }],
    ["", { identity }],
    ["not armoured", { identity }],
    [backup, { identity: stranger }],
    [backup, { identity: "AGE-SECRET-KEY-1NONSENSE" }],
    [backup, { passphrase: "there is none" }],
  ];
  for (const [text, key] of attempts) {
    expect(await operatorErrorOf(() => openBackup(text, key))).toEqual([
      "the backup cannot be decrypted: it is damaged, or the passphrase or identity is wrong",
    ]);
  }
});

const notABackup = "the file decrypts, but it is not a Rampart backup of version 1";
const unparsable = "the backup decrypts, but a certificate or a key in it cannot be parsed";

test.each([
  ["no JSON", "rampart backup"],
  ["nothing", ""],
  ["other JSON", "{}"],
  ["a list", "[]"],
  ["another format", JSON.stringify({ format: "tar", version: 1 })],
])("refuses %s, though it opens", async (_, content) => {
  const backup = await locked(content);
  expect(await operatorErrorOf(() => openBackup(backup, { identity }))).toEqual([notABackup]);
});

/** Changes the first one of a list. */
const first = <T extends object>([one]: readonly T[], changes: Partial<T>) =>
  Object.assign(one ?? {}, changes);

const exchangeKeys = ([one, other]: readonly { privateKey: string }[]) => {
  if (one && other) [one.privateKey, other.privateKey] = [other.privateKey, one.privateKey];
};

const notAKey = { privateKey: btoa("a secret that must not be told") };
const noDer = { certificate: "AAAA" };
const unreadable = unreadableRoot.toString("base64");

test.each<[string, (content: Content) => unknown, string]>([
  ["another version", (all) => Object.assign(all, { version: 2 }), notABackup],
  ["a field that nobody knows", (all) => Object.assign(all, { more: true }), notABackup],
  [
    "no authority",
    (all) => Object.assign(all, { authorities: [], requests: undefined, tokenKeys: undefined }),
    notABackup,
  ],
  [
    "more authorities than a store holds",
    (all) => Object.assign(all, { authorities: Array(101).fill(all.authorities[0]) }),
    notABackup,
  ],
  ["a date that is none", (all) => Object.assign(all, { writtenAt: "yesterday" }), notABackup],
  ["a taint whose id is a path", ({ taints }) => first(taints, { id: "../a/b" }), notABackup],
  ["an authority without a root", (all) => first(all.authorities, { roots: [] }), notABackup],
  [
    "a schedule that lacks an instant",
    ({ authorities }) => Object.assign(authorities[0]?.schedule ?? {}, { signsFrom: "soon" }),
    notABackup,
  ],
  ["a certificate that is none", (all) => first(all.authorities, noDer), unparsable],
  ["a key that is none", (all) => first(all.authorities, notAKey), unparsable],
  ["a key of another kind", (all) => exchangeKeys(all.authorities), unparsable],
  ["a root that is no certificate", (all) => first(all.additionalRoots, noDer), unparsable],
  [
    "a root that OpenSSL does not read",
    (all) => first(all.additionalRoots, { certificate: unreadable }),
    unparsable,
  ],
  [
    "an authority whose root OpenSSL does not read",
    (all) => first(all.authorities, { roots: [unreadable] }),
    unparsable,
  ],
  ["a request whose key is none", (all) => first(all.requests, notAKey), unparsable],
  ["a request whose CSR is none", (all) => first(all.requests, { csr: "AAAA" }), unparsable],
  ["a request of no date", (all) => first(all.requests, { requestedAt: "soon" }), notABackup],
  ["an empty list of requests", (all) => all.requests.splice(0), notABackup],
  ["a key for tokens that is none", (all) => first(all.tokenKeys, notAKey), unparsable],
  ["one that signs no tokens", (all) => first(all.tokenKeys, { spki: "AAAA" }), unparsable],
  ["keys for tokens of another kind", (all) => exchangeKeys(all.tokenKeys), unparsable],
  ["an empty list of keys for tokens", (all) => all.tokenKeys.splice(0), notABackup],
])("refuses %s without repeating it, and writes nothing", async (_, change, sentence) => {
  const backup = await altered(change);
  const restored = createMemoryMint(keks);
  expect(await operatorErrorOf(() => restoreInto(restored, backup, { identity }))).toEqual([
    sentence,
  ]);
  expect(restored.store.records.size).toBe(0);
});

async function twoTokenKeys(): Promise<MemoryMint> {
  const mint = createMemoryMint(keks);
  await Mint.mintAuthority(mint, authoritySchedule);
  for (let i = 0; i < 2; i++) await mintTokenKey(mint, "ES256", keySchedule);
  return mint;
}

test.each<[string, (content: Content) => unknown, () => MemoryMint | Promise<MemoryMint>]>([
  ["certificate", ({ authorities }) => exchangeKeys(authorities), () => namesakes],
  ["request", ({ requests }) => exchangeKeys(requests), () => full],
  ["public key", ({ tokenKeys }) => exchangeKeys(tokenKeys), twoTokenKeys],
])("refuses a private key that does not match its %s", async (what, change, store) => {
  const backup = await altered(change, await store());
  expect(await operatorErrorOf(() => openBackup(backup, { identity }))).toEqual([
    expect.stringMatching(
      new RegExp(`^the private key of [0-9a-f]{40,64} does not match its ${what}$`),
    ),
  ]);
});

describe("a key for tokens", () => {
  const keysIn = async (mint: MemoryMint) => (await opened(mint)).tokenKeys;

  test("is tainted still after it was restored", async () => {
    const mint = await twoTokenKeys();
    const [{ id } = { id: "" }] = await keysIn(mint);
    await Mint.recordTaint(mint, { id, taintedAt: now, retiresAt: now });
    const restored = createMemoryMint(keks);
    await restoreInto(restored, await write(mint), { identity });
    const tainted = (await keysIn(restored)).filter(({ isTainted }) => isTainted);
    expect(tainted.map((key) => key.id)).toEqual([id]);
  });

  test("stays out of a store whose others relying parties may have, and the operator reads so", async () => {
    const backup = await write(full);
    const here = createMemoryMint(keks);
    await mintTokenKey(here, "ES256", keySchedule);
    const before = await keysIn(here);
    expect(await summaryIn(here, backup)).toMatch(
      /^Keys for tokens in it stay out, because the store has others: /m,
    );
    await restoreInto(here, backup, { identity });
    expect((await keysIn(here)).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    const past = createMemoryMint(keks);
    await mintTokenKey(past, "ES256", scheduleAfter(now, [-3 * day, -2 * day, -day, 0]));
    await restoreInto(past, backup, { identity });
    expect(await keysIn(past)).toHaveLength(3);
  });
});
