import { execFile } from "node:child_process";
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { importPluggedIn } from "../../../../src/cli/verbs/import/plugged-in-import.ts";
import { followPluggedIn } from "../../../../src/node/serve/recurring-work.ts";
import { ServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { startCa } from "../../../testkit/ca/running-ca.ts";
import { openStore, signerOf } from "../../../testkit/ca/tainted-ca.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { createCa, type TestCa, writeCacerts } from "../../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const run = promisify(execFile);
const day = 86_400;
const root = await createCa("O=company,CN=root");

const write = (folder: string, ca: Pick<TestCa, "pem" | "keyPem">) =>
  writeCacerts(folder, ca, { roots: root.pem });

async function startFollowing() {
  const ca = await startCa({
    AUTHORITY_ROOT: "offline",
    MAX_WORKLOAD_CERT_TTL: `${10 * day}s`,
    PROPAGATION_INTERVAL: "600s",
  });
  const folder = await temporaryFolder();
  const follow = followPluggedIn(folder, importPluggedIn, ca.log);
  const intermediate = () => {
    const notAfter = addSeconds(ca.now(), 365 * day);
    return createCa(`O=mesh,CN=${Math.random()}`, { issuer: root, notAfter });
  };
  const refusals = () => ca.log.operations.filter(({ event }) => event === "plugged-in-refused");
  return { ca, folder, intermediate, refusals, look: () => follow(ca.mint, ca.now()) };
}

test("imports the first CA of a directory, each change once, and says in one line why not", async () => {
  const { ca, folder, intermediate, refusals, look } = await startFollowing();
  await look();
  await look();
  expect(refusals()).toEqual([
    expect.objectContaining({ level: "warning", detail: expect.stringContaining("holds no CA") }),
  ]);
  const first = await intermediate();
  await write(folder, first);
  await look();
  await look();
  const [id] = (await openStore(ca.mint)).authorities.map((each) => each.id);
  expect(await signerOf(ca)).toBe(id);
  ca.pass(100 * day);
  const second = await intermediate();
  // As when the certificate is replaced before the key is.
  await write(folder, { ...second, keyPem: first.keyPem });
  await look();
  expect(refusals().at(-1)?.detail).toContain("the cert does not match the key");
  await write(folder, second);
  await look();
  ca.pass(600);
  expect((await openStore(ca.mint)).authorities).toHaveLength(2);
  expect(await signerOf(ca)).not.toBe(id);
  await rm(folder, { recursive: true });
  await look();
  expect(await signerOf(ca)).not.toBe(id);
});

describe("a directory that is broken", () => {
  /** A CA that signs with what the directory held, and the directory with the next intermediate. */
  async function startFollowed() {
    const started = await startFollowing();
    const { ca, folder, intermediate, look } = started;
    await write(folder, await intermediate());
    await look();
    ca.pass(100 * day);
    const next = await intermediate();
    await write(folder, next);
    return { ...started, next };
  }

  const replaced = (name: string, content: string | Uint8Array) => async (folder: string) =>
    writeFile(join(folder, name), content);
  const cut = (name: string, share: number) => async (folder: string) => {
    const text = await readFile(join(folder, name), "utf8");
    await writeFile(join(folder, name), text.slice(0, text.length * share));
  };
  const instead = (name: string, make: (path: string) => Promise<unknown>) => {
    return async (folder: string) => {
      await rm(join(folder, name));
      await make(join(folder, name));
    };
  };

  // Each other fault of a file is a row of load.test.ts.
  test.each<[string, (folder: string) => Promise<unknown>, RegExp]>([
    ["a key that is half written", cut("ca-key.pem", 0.5), /ca-key\.pem/],
    ["a root that is gone", (f) => rm(join(f, "root-cert.pem")), /root-cert\.pem is missing/],
    ["an endless file", instead("ca-cert.pem", (p) => symlink("/dev/zero", p)), /is not a file of/],
    ["a pipe", instead("ca-key.pem", (p) => run("mkfifo", [p])), /ca-key\.pem is not a file of/],
    ["two CAs", replaced("tls.crt", "x"), /holds two CAs/],
  ])("changes nothing, and is told of once: %s", async (_, break_, sentence) => {
    const { ca, folder, next, refusals, look } = await startFollowed();
    const [before, signer] = [new Map(ca.store.records), await signerOf(ca)];
    await break_(folder);
    for (let i = 0; i < 3; i++) await look();
    expect(ca.store.records).toEqual(before);
    expect(await signerOf(ca)).toBe(signer);
    expect(refusals()).toEqual([
      expect.objectContaining({ level: "warning", detail: expect.stringMatching(sentence) }),
    ]);
    const line = JSON.stringify(refusals());
    expect(line).not.toMatch(/\\n|PRIVATE KEY/);
    await rm(folder, { recursive: true });
    await mkdir(folder);
    await write(folder, next);
    await look();
    expect((await openStore(ca.mint)).authorities).toHaveLength(2);
  });

  test("that is gone, and that is a file, is told of once each", async () => {
    const { ca, folder, refusals, look } = await startFollowed();
    await rm(folder, { recursive: true });
    for (let i = 0; i < 2; i++) await look();
    await writeFile(folder, "not a Secret");
    for (let i = 0; i < 2; i++) await look();
    expect(refusals()).toHaveLength(2);
    expect((await openStore(ca.mint)).authorities).toHaveLength(1);
  });
});

test("a configuration may follow a directory only where a person is the one who renews", () => {
  const parse = (AUTHORITY_ROOT: string) =>
    ServeConfiguration.parse({
      AUTHORITY_ROOT,
      STORE_DIRECTORY: "/var/lib/rampart",
      IMPORT_DIRECTORY: "/etc/cacerts",
      ISSUERS: [{ issuer: "https://a.test" }],
      KEK: randomKek(),
    });
  expect(parse("offline").importDirectory).toBe("/etc/cacerts");
  expect(() => parse("self")).toThrow("IMPORT_DIRECTORY: is for AUTHORITY_ROOT");
});
