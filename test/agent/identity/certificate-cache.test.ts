import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { CertificateCache } from "../../../src/agent/identity/certificate-cache.ts";
import { generateSubjectKey, parseAnswer } from "../../../src/agent/identity/x509-svid.ts";
import { createTestAuthority, expiresAt } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const spiffeId = workload("foo", "bar");
const now = new Date("2026-11-21T12:00:01Z");
const root = await createTestAuthority();
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const certChain = [await root.issue(spiffeId, key.publicKey), root.pem];
const { svid } = parseAnswer(certChain, { spiffeId, privateKey: key.privateKey }, now);

let folder: string;
let log: EventRecorder;
let clock: Date;

beforeEach(async () => {
  folder = await temporaryFolder();
  log = createEventRecorder();
  clock = now;
});

async function open(key?: string, purpose?: "serving"): Promise<CertificateCache> {
  const keyFile = key === undefined ? undefined : join(folder, "key");
  if (keyFile !== undefined) await writeFile(keyFile, `${key}\n`);
  const ports = { clock: () => clock, log };
  return await CertificateCache.open({ folder: join(folder, "cache"), keyFile }, ports, purpose);
}

const newKey = (): string => randomBytes(32).toString("base64");

async function onlyFile(): Promise<string> {
  const [name = ""] = await readdir(join(folder, "cache"));
  return join(folder, "cache", name);
}

test.each([
  ["plain", undefined],
  ["sealed", newKey()],
])("loads what it has stored, %s, which others cannot read", async (_name, key) => {
  const cache = await open(key);
  await cache.store(svid);
  const text = await readFile(await onlyFile(), "latin1");
  expect(text.includes("PRIVATE KEY")).toBe(key === undefined);
  expect((await stat(await onlyFile())).mode & 0o777).toBe(0o600);
  expect((await stat(join(folder, "cache"))).mode & 0o777).toBe(0o700);
  clock = new Date(now.getTime() + 60_000);
  const loaded = await cache.load(spiffeId);
  expect(loaded?.svid.certChain).toEqual(certChain);
  expect(loaded?.svid.obtainedAt).toEqual(now);
  expect(loaded?.svid.privateKey.equals(svid.privateKey)).toBe(true);
  await cache.storeRoots(root.pem);
  expect(await cache.loadRoots()).toBe(root.pem);
});

test("loads no certificate that has expired, and none of another purpose", async () => {
  const cache = await open();
  await cache.store(svid);
  expect(await (await open(undefined, "serving")).load(spiffeId)).toBeUndefined();
  clock = expiresAt;
  expect(await cache.load(spiffeId)).toBeUndefined();
  expect(log.operations).toMatchObject([{ event: "cache-unread" }, { event: "cache-unread" }]);
});

test("loads nothing under another name, nothing that was removed, and nothing before it was stored", async () => {
  const cache = await open();
  expect(await cache.load(spiffeId)).toBeUndefined();
  await cache.store(svid);
  expect(await cache.load(workload("foo", "baz"))).toBeUndefined();
  await cache.remove(spiffeId);
  expect(await cache.load(spiffeId)).toBeUndefined();
  expect(log.operations).toEqual([]);
});

test("opens no file with another key, and no file with a changed octet", async () => {
  await (await open(newKey())).store(svid);
  expect(await (await open(newKey())).load(spiffeId)).toBeUndefined();
  const key = newKey();
  const cache = await open(key);
  await cache.store(svid);
  const sealed = await readFile(await onlyFile());
  for (const at of [0, 20, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await writeFile(await onlyFile(), changed);
    expect(await cache.load(spiffeId)).toBeUndefined();
  }
});

test.each([
  ["empty", ""],
  ["garbage", "{"],
  ["another shape", "{}"],
  ["short", "abc"],
])("ignores a file that is %s, and logs nothing of its content", async (_name, content) => {
  const cache = await open();
  await cache.store(svid);
  await writeFile(await onlyFile(), content);
  expect(await cache.load(spiffeId)).toBeUndefined();
  expect(log.operations).toMatchObject([{ event: "cache-unread", detail: "not what was written" }]);
});

test("removes its files that are older than any certificate lives, and nobody else's", async () => {
  await (await open()).store(svid);
  await mkdir(join(folder, "cache", "folder"));
  await writeFile(join(folder, "cache", "notes.txt"), "another's");
  const unfinished = `.${basename(await onlyFile())}.${randomUUID()}`;
  await writeFile(join(folder, "cache", unfinished), "");
  clock = new Date(Date.now() + 91 * 86_400_000);
  await open();
  expect((await readdir(join(folder, "cache"))).sort()).toEqual(["folder", "notes.txt"]);
});

test("survives a disk that cannot be written", async () => {
  const cache = await open();
  await writeFile(join(folder, "cache"), "a file where the folder should be");
  await cache.store(svid);
  expect(log.operations).toMatchObject([{ event: "cache-unwritten" }]);
});

test.each(["", "short", "A".repeat(40), "not base64 at all"])(
  "refuses the key %j at start",
  async (key) => {
    await expect(open(key)).rejects.toThrow("RAMPART_CACHE_KEY_FILE");
  },
);

test("a certificate that a wrong clock has obtained counts as obtained now", async () => {
  const cache = await open();
  const ahead = new Date(now.getTime() + 3_600_000);
  await cache.store({ ...svid, obtainedAt: ahead });
  expect((await cache.load(spiffeId))?.svid.obtainedAt).toEqual(now);
  clock = new Date(ahead.getTime() + 1000);
  expect((await cache.load(spiffeId))?.svid.obtainedAt).toEqual(ahead);
  await cache.store({ ...svid, obtainedAt: new Date(0) });
  expect((await cache.load(spiffeId))?.svid.obtainedAt).toEqual(clock);
});

test("a sealed file is no other's, whatever name somebody gives it", async () => {
  const cache = await open(newKey());
  await cache.store(svid);
  const octets = await readFile(await onlyFile());
  const other = workload("foo", "other");
  await cache.store({ ...svid, spiffeId: other });
  for (const name of await readdir(join(folder, "cache")))
    await writeFile(join(folder, "cache", name), octets);
  expect(await cache.load(other)).toBeUndefined();
  expect(await cache.load(spiffeId)).toBeDefined();
});
