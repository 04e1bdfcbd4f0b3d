import { execFileSync } from "node:child_process";
import { readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { generateSubjectKey, privateKeyPem } from "../../../src/agent/identity/x509-svid.ts";
import { fileSecrets, parseFileResource } from "../../../src/agent/secrets/file-secrets.ts";
import { watchFile } from "../../../src/agent/secrets/file-watch.ts";
import type { SecretSource } from "../../../src/agent/secrets/secret-source.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const root = await createTestAuthority("root");
const successor = await createTestAuthority("successor");
const spiffeId = workload("foo", "bar");

async function createPair(): Promise<{ readonly chain: string; readonly key: string }> {
  const key = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const chain = await root.issue(spiffeId, key.publicKey);
  return { chain, key: privateKeyPem(key.privateKey, true) };
}

const [one, other] = await Promise.all([createPair(), createPair()]);

let folder: string;
let source: SecretSource;
let log: EventRecorder;
let failures: number;

beforeEach(async () => {
  log = createEventRecorder();
  failures = 0;
  folder = await temporaryFolder();
  source = secretsWaiting(5);
});

const secretsWaiting = (debounceMilliseconds: number): SecretSource =>
  fileSecrets(parseFileResource, {
    debounceMilliseconds,
    log,
    metrics: { fileSecretFailed: () => void failures++ },
  });

const pairName = (): string => `file-cert:${folder}/chain.pem~${folder}/key.pem`;
const rootName = (): string => `file-root:${folder}/root.pem`;

async function writePair({ chain, key }: typeof one): Promise<void> {
  await writeFile(join(folder, "key.pem"), key);
  await writeFile(join(folder, "chain.pem"), chain);
}

/** Replaces a file by a rename, as the kubelet does. */
async function replace(name: string, content: string): Promise<void> {
  await writeFile(join(folder, `${name}.new`), content);
  await rename(join(folder, `${name}.new`), join(folder, name));
}

/** Counts changes. `next` resolves at the next change, with the count. */
function watching(name: string) {
  let count = 0;
  let wake: (count: number) => void = () => undefined;
  const end = source.watch(name, () => wake(++count));
  onTestFinished(end);
  const next = (): Promise<number> => new Promise((resolve) => (wake = resolve));
  return { next, count: () => count };
}

test("secrets in files are a certificate with its key, and roots", async () => {
  await writePair(one);
  await writeFile(join(folder, "root.pem"), `junk\n${root.pem}`);
  expect(await source.load(pairName())).toEqual({
    kind: "certificate",
    chainPem: one.chain,
    privateKeyPem: one.key,
  });
  expect(await source.load(rootName())).toEqual({ kind: "roots", pem: root.pem });
});

test("secrets in files wait for the second file of a pair that is being replaced", async () => {
  await writePair(one);
  await replace("chain.pem", other.chain);
  const loading = source.load(pairName());
  await replace("key.pem", other.key);
  expect(await loading).toMatchObject({ privateKeyPem: other.key });
});

test("secrets in files are no certificate with the key of another one", async () => {
  await writePair({ chain: other.chain, key: one.key });
  // Longer than it goes on trying, so that it tries once.
  const loading = secretsWaiting(60_000).load(pairName());
  const detail = "the key is not that of the certificate";
  await expect(loading).rejects.toThrow(detail);
  const said = { event: "file-secret-unusable", level: "error", name: pairName(), detail };
  expect([log.operations, failures]).toMatchObject([[said], 1]);
  await writeFile(join(folder, "root.pem"), "junk");
  const roots = secretsWaiting(60_000).load(rootName());
  await expect(roots).rejects.toThrow("holds no certificate");
});

test("of the files of many secrets, four are read at once", async () => {
  const reading = new Set<number>();
  let count = 0;
  const find = () => {
    const each = count++;
    return {
      get kind() {
        reading.add(each);
        return "roots" as const;
      },
      file: join(folder, "root.pem"),
    };
  };
  const metrics = { fileSecretFailed: () => undefined };
  const many = fileSecrets(find, { debounceMilliseconds: 5, log, metrics });
  await writeFile(join(folder, "root.pem"), root.pem);
  const loads = Array.from({ length: 10 }, () => many.load("x"));
  for (let turn = 0; turn < 20; turn++) await undefined;
  expect([count, reading.size]).toEqual([10, 4]);
  expect(await Promise.all(loads)).toHaveLength(10);
});

test.each<readonly [string, object | undefined]>([
  ["file-root:system", { kind: "system-roots" }],
  ...["file-cert:a", "file-cert:~b", "file-cert:a~b~c", "file-root:", "default"].map(
    (name) => [name, undefined] as const,
  ),
  ["spiffe://cluster.local/ns/a/sa/b", undefined],
])("the name %s is that of %o", (name, resource) => {
  expect(parseFileResource(name)).toEqual(resource);
});

test("secrets in files notify once of a replaced certificate, and not of its key alone", async () => {
  await writePair(one);
  const { next, count } = watching(pairName());
  await replace("key.pem", other.key);
  const changed = next();
  await replace("chain.pem", other.chain);
  expect(await changed).toBe(1);
  expect(count()).toBe(1);
});

test("secrets in files notify of roots that are written in place, and of roots that are deleted and created again", async () => {
  await writeFile(join(folder, "root.pem"), root.pem);
  const { next } = watching(rootName());
  const rewritten = next();
  // Synchronous, so that the watch never reads the truncated file.
  writeFileSync(join(folder, "root.pem"), successor.pem);
  expect(await rewritten).toBe(1);
  await rm(join(folder, "root.pem"));
  const recreated = next();
  writeFileSync(join(folder, "root.pem"), root.pem);
  expect(await recreated).toBe(2);
});

test("secrets in files notify of a file behind a link into another folder, and of the folder that the kubelet swaps", async () => {
  await mkdir(join(folder, "elsewhere"));
  await writeFile(join(folder, "elsewhere/root.pem"), root.pem);
  await symlink(join(folder, "elsewhere/root.pem"), join(folder, "linked.pem"));
  const linked = watching(`file-root:${folder}/linked.pem`).next();
  writeFileSync(join(folder, "elsewhere/root.pem"), successor.pem);
  expect(await linked).toBe(1);
  for (const [version, pem] of [
    ["v1", root.pem],
    ["v2", successor.pem],
  ] as const) {
    await mkdir(join(folder, `..${version}`));
    await writeFile(join(folder, `..${version}`, "root.pem"), pem);
  }
  await symlink("..v1", join(folder, "..data"));
  await symlink("..data/root.pem", join(folder, "root.pem"));
  const { next } = watching(rootName());
  const changed = next();
  await symlink("..v2", join(folder, "..data_tmp"));
  await rename(join(folder, "..data_tmp"), join(folder, "..data"));
  await changed;
  expect(await readFile(join(folder, "root.pem"), "utf8")).toBe(successor.pem);
});

test("secrets in files are read once a file is whole, and not for a new date", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const path = join(folder, "file");
  writeFileSync(path, "former");
  const seen: string[] = [];
  const notify = (): number => seen.push(readFileSync(path, "utf8"));
  onTestFinished(watchFile(path, notify, { debounceMilliseconds: 10 }));
  for (const text of ["half", "the whole"]) {
    writeFileSync(path, text);
    vi.advanceTimersToNextTimer();
  }
  vi.advanceTimersToNextTimer();
  expect(seen).toEqual(["the whole"]);
  const look = (): void => {
    for (let i = 0; i < 3; i++) vi.advanceTimersToNextTimer();
  };
  utimesSync(path, 1, 1);
  look();
  rmSync(path);
  look();
  writeFileSync(path, "the whole");
  look();
  expect(seen).toEqual(["the whole"]);
  // Of the same length and date.
  utimesSync(path, 1, 1);
  look();
  writeFileSync(join(folder, "next"), "the other");
  utimesSync(join(folder, "next"), 1, 1);
  renameSync(join(folder, "next"), path);
  look();
  expect(seen).toEqual(["the whole", "the other"]);
});

test("secrets in files survive links in a circle", async () => {
  await symlink("b.pem", join(folder, "root.pem"));
  await symlink("root.pem", join(folder, "b.pem"));
  const { count } = watching(rootName());
  expect(count()).toBe(0);
});

test.each([
  ["a device without an end", async (path: string) => symlink("/dev/zero", path)],
  ["a pipe without a writer", async (path: string) => execFileSync("mkfifo", [path])],
])("refuses roots from %s, and watches on", async (_, create) => {
  const path = join(folder, "root.pem");
  await create(path);
  const { next } = watching(rootName());
  const loading = secretsWaiting(60_000).load(rootName());
  await expect(loading).rejects.toThrow("is not a file of at most");
  const changed = next();
  await replace("root.pem", root.pem);
  await changed;
  expect(await source.load(rootName())).toMatchObject({ kind: "roots" });
});
