import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { certificateCommand } from "../../../../src/cli/verbs/certificate/certificate.ts";
import { openFileStore } from "../../../../src/node/files/file-store.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { storeToml } from "../../../testkit/programs/store-toml.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { type LoggedCa, startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";

const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const kek = randomKek();

let ca: LoggedCa;
let folder: string;
let terminal: MemoryTerminal;
let leaves: string[];
const serialOf = (pem = ""): string => new X509Certificate(pem).serialNumber.toLowerCase();
const serialsOf = (...pems: readonly (string | undefined)[]) => pems.map(serialOf).toSorted();

beforeAll(async () => {
  ca = await startLoggedCa({ values: { KEK: kek } });
  leaves = [];
  for (const account of ["foo:bar", "foo:bar", "foo:other"]) leaves.push(await ca.issue(account));
  leaves.push(await ca.renew(leaves[0] ?? ""));
  leaves.push(await ca.renew(leaves[3] ?? ""));
  await ca.log.publish();
  return () => ca.end();
});

beforeEach(async () => {
  folder = await temporaryFolder();
  terminal = new MemoryTerminal({ clock: () => ca.ca.now() });
  terminal.setVariable("KEK", kek);
  terminal.setVariable("RAMPART_LOG_TOKEN", ca.token);
  const store = await openFileStore(join(folder, "store"));
  for (const record of await ca.ca.store.load()) await store.put(record);
  await writeFile(
    join(folder, "rampart.toml"),
    storeToml(join(folder, "store"), 'PROPAGATION_INTERVAL = "0s"'),
  );
});

function certificate(...words: readonly string[]): Promise<string> {
  return terminal.run(certificateCommand, [...words, "-c", join(folder, "rampart.toml")]);
}

const revoke = (...words: readonly string[]) =>
  certificate("revoke", ...words, "--url", ca.url, "--yes");

async function revokedSerials(): Promise<readonly string[]> {
  const reports = JSON.parse(await certificate("revoked", "--json"));
  return reports.map(({ serial }: { serial: string }) => serial).toSorted();
}

describe("certificate revoke picks from the log", () => {
  test("every certificate of a name, and suggests to deny it", async () => {
    const told = await revoke("--spiffe-id", bar);
    expect(told).toContain(`rampart deny add ${bar}\n`);
    expect(await revokedSerials()).toEqual(serialsOf(leaves[0], leaves[1], leaves[3], leaves[4]));
  });

  test("every certificate of a node, and suggests to deny the node", async () => {
    const told = await revoke("--node", "node-1");
    expect(told).toContain("rampart deny add node/node-1\n");
    expect(await revokedSerials()).toEqual(serialsOf(leaves[0], leaves[1], leaves[2]));
  });

  test("a serial number, with its name and end", async () => {
    const told = await revoke(serialOf(leaves[2]));
    expect(told).toContain("spiffe://cluster.local/ns/foo/sa/other");
    expect(await revokedSerials()).toEqual(serialsOf(leaves[2]));
  });

  test("what came of a certificate by renewals, and nothing else", async () => {
    await revoke(serialOf(leaves[0]), "--with-renewals");
    expect(await revokedSerials()).toEqual(serialsOf(leaves[0], leaves[3], leaves[4]));
  });

  test("the renewals of a certificate in a file", async () => {
    await writeFile(join(folder, "leaf.pem"), leaves[3] ?? "");
    await revoke(join(folder, "leaf.pem"), "--with-renewals");
    expect(await revokedSerials()).toEqual(serialsOf(leaves[3], leaves[4]));
  });

  test("nothing of what the log has of authorities", async () => {
    await revoke("--since", "2020-01-01T00:00:00Z");
    expect(await revokedSerials()).toHaveLength(leaves.length);
  });

  test("nothing where nothing matches", async () => {
    expect(await revoke("--cluster", "elsewhere")).toBe("There is nothing to revoke.");
  });

  test("no serial number that the log has not", async () => {
    await expect(revoke("01ab")).rejects.toThrow("01ab is not in the log");
    expect(await revokedSerials()).toEqual([]);
  });

  test("no certificate of an authority that is not in the trust bundle", async () => {
    const store = await openFileStore(join(folder, "store"));
    for (const { kind, id } of await store.load()) await store.delete({ kind, id });
    await expect(revoke("--spiffe-id", bar)).resolves.toBe("There is nothing to revoke.");
  });
});
