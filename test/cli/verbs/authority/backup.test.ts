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
import { createTaint } from "../../../../src/pki/authority/new-taint.ts";
import { AdditionalRoot } from "../../../../src/pki/authority/trust-bundle.ts";
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

let keks: KekRing;
let identity: string;
let recipient: string;
/** A store with an EC authority, a tainted RSA authority, an additional root, and a removed one. */
let full: MemoryMint;

beforeAll(async () => {
  keks = await createKekRing();
  identity = await generateX25519Identity();
  recipient = await identityToRecipient(identity);
  full = createMemoryMint(keks);
  await Mint.mintAuthority(full, scheduleAfter(now, [0, 0, 90 * day, 180 * day]));
  const rsa = { ...full, authorityKey: "RSA-2048" as const };
  await Mint.mintAuthority(rsa, scheduleAfter(now, [1, 1, 90 * day, 180 * day]));
  const stranger = createMemoryMint(keks);
  for (const start of [0, 1]) {
    await Mint.mintAuthority(stranger, scheduleAfter(now, [start, start, 90 * day, 180 * day]));
  }
  for (const { certificate } of await authoritiesIn(stranger)) {
    await trustRoot(full, certificate.der, now);
  }
  const tainted = (await authoritiesIn(full)).find(({ publicKey }) =>
    publicKey.algorithm.startsWith("RSA"),
  );
  const [root] = (await opened(full)).additionalRoots;
  if (!tainted || !root) throw new Error("the store lacks something");
  await Mint.recordTaint(
    full,
    createTaint(await opened(full), tainted.id, "with-last-leaf", lengths, addSeconds(now, 60)),
  );
  await Mint.recordTaint(full, AdditionalRoot.retire(root, addSeconds(now, day), now));
});

async function opened(mint: MemoryMint): Promise<OpenedStore> {
  const stored = await mint.store.load();
  return OpenedStore.open(stored, mint);
}

/** The content of a store, in a fixed order. */
async function contentOf(mint: MemoryMint): Promise<unknown> {
  const { authorities, additionalRoots, taints, refusals } = await opened(mint);
  const byId = (a: { id: string }, b: { id: string }) => a.id.localeCompare(b.id);
  return {
    authorities: authorities
      .map(({ id, certificate, intermediates, roots, schedule }) => {
        return { id, der: certificate.der, intermediates, roots, schedule };
      })
      .toSorted(byId),
    additionalRoots: additionalRoots.toSorted(byId),
    taints: taints.toSorted(byId),
    refusals,
  };
}

const restoreInto = async (mint: MemoryMint, backup: string, key: BackupKey): Promise<void> =>
  restoreBackup(createMemorySession(mint, now), await openBackup(backup, key));

const write = (mint: MemoryMint): Promise<string> =>
  sealBackup(createMemorySession(mint, now), { recipients: [recipient] });

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
  tokenKeys?: { spki: string; privateKey: string; schedule: object }[];
  requests?: { csr: string; privateKey: string; requestedAt: string }[];
}

/** The decrypted content of a backup. */
async function unlocked(mint: MemoryMint): Promise<string> {
  const decrypter = new Decrypter();
  decrypter.addIdentity(identity);
  return decrypter.decrypt(armor.decode(await write(mint)), "text");
}

/** The backup with changed content: everybody who knows the recipient can encrypt one. */
async function altered(change: (content: Content) => void, mint = full): Promise<string> {
  const content = JSON.parse(await unlocked(mint)) as Content;
  change(content);
  return locked(JSON.stringify(content));
}

test("restores authorities, roots and taints unchanged, under another KEK", async () => {
  const restored = createMemoryMint(await createKekRing("k2"));
  await restoreInto(restored, await write(full), { identity });
  expect(await contentOf(restored)).toEqual(await contentOf(full));
  expect(restored.store.records.size).toBe(6);
  // No authority is back before its taint.
  const kinds = [...restored.store.records.keys()].map((name) => name.replace(/\/.*/, ""));
  expect(kinds.lastIndexOf("taint")).toBeLessThan(kinds.indexOf("authority"));
  // Both issuers can sign, because their keys are restored.
  expect((await opened(restored)).openAuthorities).toHaveLength(2);
});

const passphrase = "correct horse battery";

test("opens by a passphrase, which age stretches with scrypt", async () => {
  const backup = await sealBackup(createMemorySession(full, now), { passphrase });
  const header = new TextDecoder("latin1").decode(armor.decode(backup));
  const [, logN] = /^-> scrypt \S+ (\d+)$/m.exec(header) ?? [];
  expect(Number(logN)).toBeGreaterThanOrEqual(18);
  expect((await openBackup(backup, { passphrase })).authorities).toHaveLength(2);
});

test("does not open by another passphrase", async () => {
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
  const backup = await openBackup(earlier, { identity });
  const store = await opened(full);
  const said = summarizeBackup(backup, { store, configuredTaints: [], now }).split("\n");
  expect(said[0]).toBe("The backup does not say when it was written.");
});

test.each([
  [-3600, "which is in the future by this clock."],
  [0, "0 hours ago."],
  [3600, "1 hour ago."],
  [day - 1, "23 hours ago."],
  [400 * day, "400 days ago."],
])("prints its age after %d seconds", async (age, end) => {
  const backup = await openBackup(await write(full), { identity });
  const store = await opened(full);
  const at = { store, configuredTaints: [], now: addSeconds(now, age) };
  expect(summarizeBackup(backup, at).split("\n")[0]).toBe(
    `The backup was written at 2026-11-21 12:00Z, ${end}`,
  );
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

const foreign: Readonly<Record<string, string>> = {
  "no JSON": "rampart backup",
  nothing: "",
  "other JSON": "{}",
  "a list": "[]",
  "another format": JSON.stringify({ format: "tar", version: 1 }),
};

test.each(Object.entries(foreign))("refuses %s, though it opens", async (_, content) => {
  const backup = await locked(content);
  expect(await operatorErrorOf(() => openBackup(backup, { identity }))).toEqual([
    "the file decrypts, but it is not a Rampart backup of version 1",
  ]);
});

const alterations: Readonly<Record<string, (content: Content) => void>> = {
  "another version": (content) => {
    content.version = 2;
  },
  "a field that nobody knows": (content) => {
    Object.assign(content, { more: true });
  },
  "no authority": (content) => {
    content.authorities = [];
  },
  "more authorities than a store holds": (content) => {
    const [first] = content.authorities;
    if (first) content.authorities = Array.from({ length: 101 }, () => first);
  },
  "a date that is none": (content) => {
    Object.assign(content, { writtenAt: "yesterday" });
  },
  "a taint whose id is a path": (content) => {
    for (const taint of content.taints) taint.id = "../authorities/ab";
  },
  "an authority without a root": (content) => {
    for (const authority of content.authorities) authority.roots = [];
  },
  "a schedule that lacks an instant": (content) => {
    for (const { schedule } of content.authorities) Object.assign(schedule, { signsFrom: "soon" });
  },
};

test.each(Object.entries(alterations))("refuses %s", async (_, change) => {
  const backup = await altered(change);
  expect(await operatorErrorOf(() => openBackup(backup, { identity }))).toEqual([
    "the file decrypts, but it is not a Rampart backup of version 1",
  ]);
});

const spoiled: Readonly<Record<string, (content: Content) => void>> = {
  "a certificate that is none": ({ authorities: [first] }) => {
    if (first) first.certificate = "AAAA";
  },
  "a key that is none": ({ authorities: [first] }) => {
    if (first) first.privateKey = btoa("a secret that must not be told");
  },
  "a key of another kind": ({ authorities: [first, second] }) => {
    if (first && second) first.privateKey = second.privateKey;
  },
  "a root that is no certificate": ({ additionalRoots: [first] }) => {
    if (first) first.certificate = "AAAA";
  },
  "a root that OpenSSL does not read": ({ additionalRoots: [first] }) => {
    if (first) first.certificate = unreadableRoot.toString("base64");
  },
  "an authority whose root OpenSSL does not read": ({ authorities: [first] }) => {
    if (first) first.roots = [unreadableRoot.toString("base64")];
  },
};

test.each(Object.entries(spoiled))("refuses %s without repeating it", async (_, change) => {
  const backup = await altered(change);
  expect(await operatorErrorOf(() => openBackup(backup, { identity }))).toEqual([
    "the backup decrypts, but a certificate or a key in it cannot be parsed",
  ]);
});

test("refuses a key that does not match its certificate", async () => {
  const stranger = createMemoryMint(keks);
  await Mint.mintAuthority(stranger, scheduleAfter(now, [0, 0, 90 * day, 180 * day]));
  await Mint.mintAuthority(stranger, scheduleAfter(now, [0, 0, 90 * day, 180 * day]));
  const backup = await altered(({ authorities: [first, second] }) => {
    if (first && second) first.privateKey = second.privateKey;
  }, stranger);
  const lines = await operatorErrorOf(() => openBackup(backup, { identity }));
  expect(lines).toEqual([
    expect.stringMatching(/^the private key of [0-9a-f]{40} does not match its certificate$/),
  ]);
});

describe("an open request", () => {
  /** A store with nothing but two requests: their CSRs may lie with a CA for weeks. */
  const requesting = async (): Promise<MemoryMint> => {
    const mint = createMemoryMint(keks, { authorityRoot: "offline" });
    await RequestedIntermediate.request(mint, now);
    await RequestedIntermediate.request(mint, addSeconds(now, 60));
    return mint;
  };
  const requestsIn = async (mint: MemoryMint) =>
    (await opened(mint)).requests
      .map(({ id, requestedAt, csr, publicKey }) => ({ id, requestedAt, csr, publicKey }))
      .toSorted((a, b) => a.id.localeCompare(b.id));

  test("is restored with its key and its age, under another KEK", async () => {
    const mint = await requesting();
    const restored = createMemoryMint(await createKekRing("k2"), { authorityRoot: "offline" });
    await restoreInto(restored, await write(mint), { identity });
    const [before, after] = [await requestsIn(mint), await requestsIn(restored)];
    expect(after).toEqual(before);
    for (const [i, request] of after.entries()) {
      const keys = [
        RequestedIntermediate.keyOf(restored, request),
        RequestedIntermediate.keyOf(mint, before[i] ?? request),
      ];
      const [one, other] = await Promise.all(
        keys.map(async (key) => crypto.subtle.exportKey("pkcs8", await key)),
      );
      expect(one).toEqual(other);
    }
  });

  test("is named before it is restored", async () => {
    const mint = await requesting();
    const backup = await openBackup(await write(mint), { identity });
    const store = await opened(mint);
    expect(summarizeBackup(backup, { store, configuredTaints: [], now })).toMatch(
      /^Open requests in it: [0-9a-f]{12}, [0-9a-f]{12}\.$/m,
    );
  });

  test.each<[string, (requests: NonNullable<Content["requests"]>) => void, RegExp]>([
    [
      "whose key is another one's",
      ([one, other]) => {
        if (one && other) one.privateKey = other.privateKey;
      },
      /^the private key of [0-9a-f]{40} does not match its request$/,
    ],
    [
      "whose key is none",
      ([one]) => {
        if (one) one.privateKey = btoa("a secret that must not be told");
      },
      /^the backup decrypts, but a certificate or a key in it cannot be parsed$/,
    ],
    [
      "whose CSR is none",
      ([one]) => {
        if (one) one.csr = "AAAA";
      },
      /^the backup decrypts, but a certificate or a key in it cannot be parsed$/,
    ],
    [
      "of no date",
      ([one]) => {
        if (one) one.requestedAt = "soon";
      },
      /^the file decrypts, but it is not a Rampart backup of version 1$/,
    ],
    [
      "that is missing from the list",
      (requests) => {
        requests.length = 0;
      },
      /^the file decrypts, but it is not a Rampart backup of version 1$/,
    ],
  ])("%s is refused", async (_, change, sentence) => {
    const spoilt = await altered(({ requests = [] }) => change(requests), await requesting());
    const restored = createMemoryMint(keks);
    const [line] = await operatorErrorOf(() => restoreInto(restored, spoilt, { identity }));
    expect(line).toMatch(sentence);
    expect(restored.store.records.size).toBe(0);
  });
});

describe("a key for tokens", () => {
  const schedule = scheduleAfter(now, [0, 0, 28 * day, 29 * day]);

  /** A store with an authority, and with a key of each algorithm. */
  const issuing = async (): Promise<MemoryMint> => {
    const mint = createMemoryMint(keks);
    await Mint.mintAuthority(mint, scheduleAfter(now, [0, 0, 90 * day, 180 * day]));
    for (const algorithm of ["ES256", "RS256"] as const) {
      await mintTokenKey(mint, algorithm, schedule);
    }
    return mint;
  };
  const keysIn = async (mint: MemoryMint) =>
    (await opened(mint)).tokenKeys.toSorted((a, b) => a.id.localeCompare(b.id));
  const summaryIn = async (mint: MemoryMint, backup: string): Promise<string> => {
    const content = await openBackup(backup, { identity });
    return summarizeBackup(content, { store: await opened(mint), configuredTaints: [], now });
  };

  test("is restored under another KEK, and signs what its public key verifies", async () => {
    const mint = await issuing();
    const restored = createMemoryMint(await createKekRing("k2"));
    const backup = await write(mint);
    expect(await summaryIn(restored, backup)).toMatch(
      /^Keys for tokens in it: [0-9a-f]{12}, [0-9a-f]{12}\.$/m,
    );
    await restoreInto(restored, backup, { identity });
    const [before, after] = [await keysIn(mint), await keysIn(restored)];
    expect(after.map(({ privateKey: _, ...key }) => key)).toEqual(
      before.map(({ privateKey: _, ...key }) => key),
    );
    for (const key of after) {
      const claims = { iss: "https://ca.test", sub: "spiffe://a/b", aud: ["a"], jti: "1" };
      const token = await JsonWebSignature.sign(key, { ...claims, iat: 0, exp: 1 });
      const keys = [await TokenKey.toJwk(key)];
      expect(verifiedByNode(token, { keys })?.header["kid"]).toBe(key.id);
    }
  });

  test("is tainted still after it was restored", async () => {
    const mint = await issuing();
    const [{ id } = { id: "" }] = await keysIn(mint);
    await Mint.recordTaint(mint, { id, taintedAt: now, retiresAt: now });
    const restored = createMemoryMint(keks);
    await restoreInto(restored, await write(mint), { identity });
    const tainted = (await keysIn(restored)).filter(({ isTainted }) => isTainted);
    expect(tainted.map((key) => key.id)).toEqual([id]);
  });

  test("stays out of a store whose others relying parties may have, and the operator reads so", async () => {
    const mint = await issuing();
    const backup = await write(mint);
    const here = createMemoryMint(keks);
    for (const [name, value] of mint.store.records) {
      if (!name.startsWith("tokenKey/")) here.store.records.set(name, value);
    }
    await mintTokenKey(here, "ES256", schedule);
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

  test.each<[string, (keys: NonNullable<Content["tokenKeys"]>) => void, RegExp]>([
    [
      "whose private part is another one's",
      (keys) => {
        for (const key of keys) key.privateKey = keys.at(-1)?.privateKey ?? "";
      },
      /^the (?:private key of [0-9a-f]{64} does not match its public key|backup decrypts, but .*)$/,
    ],
    [
      "that is none",
      ([key]) => {
        if (key) key.privateKey = btoa("a secret that must not be told");
      },
      /^the backup decrypts, but a certificate or a key in it cannot be parsed$/,
    ],
    [
      "that signs no tokens",
      ([key]) => {
        if (key) key.spki = "AAAA";
      },
      /^the backup decrypts, but a certificate or a key in it cannot be parsed$/,
    ],
    [
      "that is missing from the list",
      (keys) => {
        keys.length = 0;
      },
      /^the file decrypts, but it is not a Rampart backup of version 1$/,
    ],
  ])("%s is refused", async (_, change, sentence) => {
    const spoilt = await altered(({ tokenKeys = [] }) => change(tokenKeys), await issuing());
    const restored = createMemoryMint(keks);
    const [line] = await operatorErrorOf(() => restoreInto(restored, spoilt, { identity }));
    expect(line).toMatch(sentence);
    expect(restored.store.records.size).toBe(0);
  });
});
