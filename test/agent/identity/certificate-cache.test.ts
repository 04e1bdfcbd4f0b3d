import { randomBytes } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import {
  type CertificateCache,
  openCertificateCache,
} from "../../../src/agent/identity/certificate-cache.ts";
import { generateSubjectKey } from "../../../src/agent/identity/subject-key.ts";
import { parseIssuance } from "../../../src/agent/identity/x509-svid.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../stories/running-agent.ts";
import { createTestAuthority, expiresAt } from "./test-authority.ts";

const spiffeId = workload("foo", "bar");
const now = new Date("2026-11-21T12:00:01Z");
const root = await createTestAuthority();
const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
const elements = [await root.issue(spiffeId, key.publicKey), root.pem];
const issuance = parseIssuance(elements, { spiffeId, privateKey: key.privateKey }, now);

let folder: string;
let log: EventRecorder;
let clock: Date;

beforeEach(async () => {
  folder = await temporaryFolder();
  log = createEventRecorder();
  clock = now;
});

async function open(key?: string): Promise<CertificateCache> {
  const keyFile = key === undefined ? undefined : join(folder, "key");
  if (keyFile !== undefined) await writeFile(keyFile, `${key}\n`);
  const ports = { clock: () => clock, log };
  return await openCertificateCache({ folder: join(folder, "cache"), keyFile }, ports);
}

const newKey = (): string => randomBytes(32).toString("base64");

async function onlyFile(): Promise<string> {
  const [name = ""] = await readdir(join(folder, "cache"));
  return join(folder, "cache", name);
}

test.each([
  ["plain", undefined],
  ["sealed", newKey()],
])("gives back what it was given, %s", async (_name, key) => {
  const cache = await open(key);
  await cache.remember(issuance);
  clock = new Date(now.getTime() + 60_000);
  const recalled = await cache.recall(spiffeId);
  expect(recalled?.elements).toEqual(elements);
  expect(recalled?.svid.obtainedAt).toEqual(now);
  expect(
    recalled?.svid.privateKey.equals(
      key === undefined ? issuance.svid.privateKey : issuance.svid.privateKey,
    ),
  ).toBe(true);
  await cache.rememberRoots(root.pem);
  expect(await cache.recallRoots()).toBe(root.pem);
});

test("keeps its files from everybody else", async () => {
  await (await open()).remember(issuance);
  expect((await stat(await onlyFile())).mode & 0o777).toBe(0o600);
});

test("has nothing of the key in a sealed file", async () => {
  await (await open(newKey())).remember(issuance);
  expect(await readFile(await onlyFile(), "latin1")).not.toContain("PRIVATE KEY");
});

test("gives back nothing that has expired", async () => {
  const cache = await open();
  await cache.remember(issuance);
  clock = expiresAt;
  expect(await cache.recall(spiffeId)).toBeUndefined();
  expect(log.operations).toMatchObject([{ event: "cache-unread" }]);
});

test("gives back nothing under another name, and nothing that is not there", async () => {
  const cache = await open();
  expect(await cache.recall(spiffeId)).toBeUndefined();
  await cache.remember(issuance);
  expect(await cache.recall(workload("foo", "baz"))).toBeUndefined();
  await cache.forget(spiffeId);
  expect(await cache.recall(spiffeId)).toBeUndefined();
  expect(log.operations).toEqual([]);
});

test("opens nothing with another key, or with one octet changed", async () => {
  await (await open(newKey())).remember(issuance);
  expect(await (await open(newKey())).recall(spiffeId)).toBeUndefined();
  const key = newKey();
  const cache = await open(key);
  await cache.remember(issuance);
  const sealed = await readFile(await onlyFile());
  for (const at of [0, 20, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await writeFile(await onlyFile(), changed);
    expect(await cache.recall(spiffeId)).toBeUndefined();
  }
});

test.each([
  ["empty", ""],
  ["garbage", "{"],
  ["another shape", "{}"],
  ["short", "abc"],
])("survives a file that is %s, and says nothing of what was in it", async (_name, content) => {
  const cache = await open();
  await cache.remember(issuance);
  await writeFile(await onlyFile(), content);
  expect(await cache.recall(spiffeId)).toBeUndefined();
  expect(log.operations).toMatchObject([{ event: "cache-unread", detail: "not what was written" }]);
});

test("forgets what nobody has written for as long as a certificate can live", async () => {
  await (await open()).remember(issuance);
  clock = new Date(Date.now() + 91 * 86_400_000);
  await open();
  expect(await readdir(join(folder, "cache"))).toEqual([]);
});

test("survives a disk that takes nothing", async () => {
  const cache = await open();
  await writeFile(join(folder, "cache"), "a file where the folder should be");
  await cache.remember(issuance);
  expect(log.operations).toMatchObject([{ event: "cache-unwritten" }]);
});

test.each(["", "short", "not base64 at all"])("does not start with the key %j", async (key) => {
  await expect(open(key)).rejects.toThrow("RAMPART_CACHE_KEY_FILE");
});
