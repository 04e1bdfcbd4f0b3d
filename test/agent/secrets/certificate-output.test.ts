import { execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import {
  chmod,
  lchown,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { CertificateOutput, joinPem, writeOutput } from "../../../src/agent/certificate-output.ts";
import type { OutputSettings } from "../../../src/agent/configuration.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

let settings: OutputSettings;
const files = { "key.pem": "key", "cert-chain.pem": "chain", "root-cert.pem": "root" };

beforeEach(async () => {
  settings = {
    folder: join(await temporaryFolder(), "out"),
    isAtomic: false,
    mode: 0o600,
    owner: undefined,
    onChange: undefined,
  };
});

const read = (name: string): Promise<string> => readFile(join(settings.folder, name), "utf8");
const modeOf = async (name: string): Promise<number> =>
  (await stat(join(settings.folder, name))).mode & 0o777;

test("the output is three files that their owner alone may read", async () => {
  expect(await writeOutput(settings, files)).toBe(true);
  expect(await Promise.all(Object.keys(files).map(read))).toEqual(Object.values(files));
  expect(await modeOf("key.pem")).toBe(0o600);
  expect((await readdir(settings.folder)).toSorted()).toEqual(Object.keys(files).toSorted());
});

test("the files are left alone when nothing has changed", async () => {
  await writeOutput(settings, files);
  const before = await lstat(join(settings.folder, "key.pem"));
  expect(await writeOutput(settings, files)).toBe(false);
  expect(await writeOutput(settings, { ...files, "root-cert.pem": "new" })).toBe(true);
  expect((await lstat(join(settings.folder, "key.pem"))).ino).toBe(before.ino);
  expect(await read("root-cert.pem")).toBe("new");
});

const isRoot = process.getuid?.() === 0;
const nobody = { uid: 65_534, gid: 65_534 };

test.each([
  [0o600, 0o700],
  [0o640, 0o755],
  [0o644, 0o755],
])(
  "of mode %o lie in a folder of their owner that others may enter only if they may read: %o",
  async (mode, folder) => {
    const owner = isRoot ? nobody : undefined;
    await writeOutput({ ...settings, isAtomic: true, mode, owner }, files);
    expect([await modeOf("..data"), await modeOf("key.pem")]).toEqual([folder, mode]);
    for (const name of ["..data/", "key.pem"])
      expect(await stat(join(settings.folder, name))).toMatchObject(owner ?? {});
  },
);

test("the files change all at once if the settings ask for it", async () => {
  const atomic = { ...settings, isAtomic: true };
  await writeOutput(atomic, files);
  expect(await read("key.pem")).toBe("key");
  await writeOutput(atomic, { ...files, "key.pem": "new" });
  expect(await read("key.pem")).toBe("new");
  expect(await modeOf("key.pem")).toBe(0o600);
  const entries = await readdir(settings.folder);
  // Three links, the link to the folder, and the folder. The previous folder is gone.
  expect(entries).toHaveLength(5);
});

test.each([false, true])(
  "go when they have no content any more, all at once: %s",
  async (isAtomic) => {
    const chosen = { ...settings, isAtomic };
    await writeOutput(settings, files);
    await writeOutput(chosen, { ...files, "ca-crl.pem": "crl" });
    expect((await lstat(join(settings.folder, "key.pem"))).isSymbolicLink()).toBe(isAtomic);
    expect(await read("cert-chain.pem")).toBe("chain");
    expect(await writeOutput(chosen, { ...files, "ca-crl.pem": undefined })).toBe(true);
    expect(await readdir(settings.folder)).not.toContain("ca-crl.pem");
    expect(await writeOutput(chosen, { ...files, "ca-crl.pem": undefined })).toBe(false);
  },
);

test.each([["../../victim"], ["../victim"], ["..victim"]])(
  "leave the folder %s alone, to which somebody has linked",
  async (target) => {
    const atomic = { ...settings, isAtomic: true };
    await writeOutput(atomic, files);
    const victim = join(settings.folder, target);
    await mkdir(victim, { recursive: true });
    await writeFile(join(victim, "precious"), "");
    await rm(join(settings.folder, "..data"));
    await symlink(target, join(settings.folder, "..data"));
    await writeOutput(atomic, { ...files, "key.pem": "new" });
    expect(await readdir(victim)).toEqual(["precious"]);
    await rm(victim, { recursive: true });
  },
);

test.each([false, true])(
  "take the place of a pipe and of links to elsewhere, all at once: %s",
  async (isAtomic) => {
    const chosen = { ...settings, isAtomic };
    await mkdir(settings.folder);
    execFileSync("mkfifo", [join(settings.folder, "root-cert.pem")]);
    await writeFile(join(settings.folder, "other"), "other");
    await symlink("other", join(settings.folder, "key.pem"));
    await symlink("/dev/zero", join(settings.folder, "cert-chain.pem"));
    expect(await writeOutput(chosen, files)).toBe(true);
    expect(await Promise.all(Object.keys(files).map(read))).toEqual(Object.values(files));
    expect(await read("other")).toBe("other");
    expect(await writeOutput(chosen, files)).toBe(false);
  },
);

test.runIf(isRoot).each([false, true])(
  "follow a link to their folder only if no other user has made it, all at once: %s",
  async (isAtomic) => {
    const target = await temporaryFolder();
    await symlink(target, settings.folder);
    await lchown(settings.folder, 65_534, 65_534);
    const write = () => writeOutput({ ...settings, isAtomic }, files);
    await expect(write()).rejects.toThrow(OperatorError);
    expect(await readdir(target)).toEqual([]);
    await lchown(settings.folder, 0, 0);
    expect(await write()).toBe(true);
    expect(await readFile(join(target, "key.pem"), "utf8")).toBe("key");
  },
);

/** Puts links to a victim in the place of folders as soon as they are made. */
const swapper = `
  const { readdirSync, renameSync, symlinkSync } = require("node:fs");
  const { folder, victim, strikes } = require("node:worker_threads").workerData;
  const stolen = new Set();
  while (strikes[0] < 5) {
    for (const name of readdirSync(folder)) {
      if (!/^\\.\\.[0-9a-f]{8}-/.test(name) || stolen.has(name)) continue;
      stolen.add(name);
      try {
        renameSync(folder + "/" + name, folder + "/stolen-" + name);
        symlinkSync(victim, folder + "/" + name);
        Atomics.add(strikes, 0, 1);
      } catch {}
    }
  }
`;

test("do not follow a link that somebody puts in place of their new folder", async () => {
  const victim = await temporaryFolder();
  await mkdir(settings.folder);
  await chmod(victim, 0o711);
  const strikes = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { folder: settings.folder, victim, strikes };
  const swapping = new Worker(swapper, { eval: true, workerData });
  onTestFinished(async () => void (await swapping.terminate()));
  for (let i = 0; Atomics.load(strikes, 0) < 5; i++) {
    const changed = { ...files, "key.pem": `key ${i}` };
    await writeOutput({ ...settings, isAtomic: true }, changed).catch(() => {});
    const { mode } = await stat(victim);
    expect([mode & 0o777, await readdir(victim)]).toEqual([0o711, []]);
  }
});

test.each([
  [false, "root-cert.pem", 3],
  [true, "..data", 5],
])(
  "leave nothing behind when they cannot be written, all at once: %s",
  async (isAtomic, name, count) => {
    const chosen = { ...settings, isAtomic };
    // A rename cannot replace a folder by a file.
    await mkdir(join(settings.folder, name, "x"), { recursive: true });
    await expect(writeOutput(chosen, files)).rejects.toThrow();
    await rm(join(settings.folder, name), { recursive: true });
    expect(await writeOutput(chosen, files)).toBe(true);
    expect(await readdir(settings.folder)).toHaveLength(count);
  },
);

// Istio's TestConcatCerts.
test.each([
  [[], ""],
  [["a"], "a"],
  [["a", "b"], "a\nb"],
  [["a\n", "b"], "a\nb"],
])("joins %j as Istio does", (elements, joined) => {
  expect(joinPem(elements)).toBe(joined);
});

/** The files of an agent whose state the test changes. */
async function keepFiles(
  state: { isPublished?: boolean; isAbsent?: boolean; pem?: string },
  given: Partial<ConstructorParameters<typeof CertificateOutput>[0]> = {},
) {
  const [identity, trust, revocation] = [new Subscribers(), new Subscribers(), new Subscribers()];
  const { certificate, pem } = await createTestAuthority("a");
  const svid = {
    spiffeId: workload("foo", "bar", clusterLocal),
    privateKey: generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey,
    chain: [certificate] as const,
    certChain: [pem, pem],
    notAfter: new Date(),
    obtainedAt: new Date(),
  };
  const asked = Promise.withResolvers<void>();
  const log = createEventRecorder();
  const parts = {
    identity: { svid, changes: identity },
    trust: { pem, changes: trust },
    revocation: Object.assign(
      { isPublished: false, isAbsent: false, pem: "", changes: revocation },
      { ...state, settled: () => asked.promise },
    ),
  };
  const output = new CertificateOutput({
    settings,
    log,
    isPkcs8: false,
    purpose: "identity" as const,
    ...parts,
    ...given,
  });
  onTestFinished(() => output.close());
  return { ...parts, output, log, asked };
}

test("no program gets roots before it is known which CRLs belong to them", async () => {
  const { revocation, asked, log, output } = await keepFiles({});
  await setImmediate();
  await expect(readdir(settings.folder)).rejects.toThrow("ENOENT");
  Object.assign(revocation, { isPublished: true, pem: "crl" });
  // Where the roots cannot be written, their CRLs are there all the same: they come first.
  await mkdir(join(settings.folder, "root-cert.pem"), { recursive: true });
  asked.resolve();
  await log.until("files-unwritten");
  await output.close();
  expect(await read("ca-crl.pem")).toBe("crl");
});

test("each change is written, a CRL of an earlier run goes, and what failed is written once it can be", async () => {
  await mkdir(join(settings.folder, "key.pem", "in the way"), { recursive: true });
  await writeFile(join(settings.folder, "ca-crl.pem"), "of an earlier run");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { identity, trust, revocation, asked, log, output } = await keepFiles({ isAbsent: true });
  asked.resolve();
  await log.until("files-unwritten");
  expect(output.faults).toEqual([expect.stringContaining("cannot be written")]);
  await rm(join(settings.folder, "key.pem"), { recursive: true });
  vi.advanceTimersByTime(5_000);
  await log.until("files-written");
  expect(output.faults).toEqual([]);
  expect(await readdir(settings.folder)).not.toContain("ca-crl.pem");
  expect(await read("key.pem")).toContain("BEGIN EC PRIVATE KEY");
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  Object.assign(identity, { svid: { ...identity.svid, privateKey: key } });
  identity.changes.notify();
  await log.until("files-written", 2);
  expect(await read("key.pem")).toBe(key.export({ type: "sec1", format: "pem" }));
  Object.assign(trust, { pem: "next" });
  trust.changes.notify();
  await log.until("files-written", 3);
  expect(await read("root-cert.pem")).toBe("next");
  Object.assign(revocation, { isPublished: true, isAbsent: false, pem: "crl" });
  revocation.changes.notify();
  await log.until("files-written", 4);
  expect(await read("ca-crl.pem")).toBe("crl");
  revocation.changes.notify();
  await output.close();
  expect(log.operations.filter(({ event }) => event === "files-written")).toHaveLength(4);
});

test("a server's files have no roots in the chain and no CRL, and its command's failure is a fault", async () => {
  const { asked, log, output } = await keepFiles(
    { isPublished: true, pem: "crl" },
    { settings: { ...settings, onChange: "exit 3" }, purpose: "serving" },
  );
  asked.resolve();
  await log.until("on-change-failed");
  expect(output.faults).toEqual(["RAMPART_ON_CHANGE ended with 3"]);
  expect((await read("cert-chain.pem")).match(/BEGIN/g)).toHaveLength(1);
  expect(await readdir(settings.folder)).not.toContain("ca-crl.pem");
});
