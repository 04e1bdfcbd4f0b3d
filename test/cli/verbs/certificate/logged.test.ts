import { X509Certificate } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { LogEntry } from "../../../../src/ca/issuance/log-entry.ts";
import { certificateCommand } from "../../../../src/cli/verbs/certificate/certificate.ts";
import { denyCommand } from "../../../../src/cli/verbs/deny.ts";
import { logCommand } from "../../../../src/cli/verbs/log/log.ts";
import { FileStore } from "../../../../src/node/files/file-store.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { tokenEntry } from "../../../testkit/log/token-entry.ts";
import { type LoggedCa, startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";
import { Operator } from "../../operator.ts";

const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const kek = randomKek();

let ca: LoggedCa;
let operator: Operator;
let leaves: string[];
const serialOf = (pem = ""): string => new X509Certificate(pem).serialNumber.toLowerCase();
const serialsOf = (...pems: readonly (string | undefined)[]) => pems.map(serialOf).toSorted();

beforeAll(async () => {
  ca = await startLoggedCa({ values: { KEK: kek } });
  leaves = [];
  for (const account of ["foo:bar", "foo:bar", "foo:other"]) leaves.push(await ca.issue(account));
  leaves.push(await ca.renew(leaves[0] ?? ""));
  leaves.push(await ca.renew(leaves[3] ?? ""));
  await ca.log.append(LogEntry.format(tokenEntry({ at: ca.ca.now().toISOString() })));
  await ca.log.publish();
  return () => ca.end();
});

beforeEach(async () => {
  operator = await Operator.create(ca.ca.now(), 'PROPAGATION_INTERVAL = "0s"');
  operator.terminal.setVariable("KEK", kek);
  operator.terminal.setVariable("RAMPART_LOG_TOKEN", ca.token);
  const store = await FileStore.open(operator.file("store"));
  for (const record of await ca.ca.store.load()) await store.put(record);
});

const certificate = (...words: readonly string[]) => operator.run(certificateCommand, words);
const revoke = (...words: readonly string[]) =>
  certificate("revoke", ...words, "--url", ca.url, "--yes");

async function revokedSerials(): Promise<readonly string[]> {
  const reports = JSON.parse(await certificate("revoked", "--json"));
  return reports.map(({ serial }: { serial: string }) => serial).toSorted();
}

describe("certificate revoke picks from the log", () => {
  test("every certificate of a name, and suggests to deny it", async () => {
    const told = await revoke("--spiffe-id", bar);
    expect(told).toContain(`rampart deny add ${bar} --config `);
    expect(await revokedSerials()).toEqual(serialsOf(leaves[0], leaves[1], leaves[3], leaves[4]));
  });

  test("every certificate of a node, and suggests to deny the node", async () => {
    const told = await revoke("--node", "node-1");
    expect(told).toContain("rampart deny add node/node-1 --config ");
    expect(await revokedSerials()).toEqual(serialsOf(leaves[0], leaves[1], leaves[2]));
  });

  test("every certificate of a token, and suggests to deny the token", async () => {
    const words = ["search", "--url", ca.url, "--serial", serialOf(leaves[2]), "--json"];
    const { tokenId } = JSON.parse(await operator.terminal.run(logCommand, words));
    expect(await revoke("--token-id", tokenId)).toContain(`rampart deny add token/${tokenId} `);
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
    await writeFile(operator.file("leaf.pem"), leaves[3] ?? "");
    // It is in the log, too.
    const told = await revoke(operator.file("leaf.pem"), serialOf(leaves[3]), "--with-renewals");
    expect(told.match(/^[0-9a-f]{34} /gm)).toHaveLength(2);
    expect(await revokedSerials()).toEqual(serialsOf(leaves[3], leaves[4]));
  });

  test("nothing of what the log has of authorities", async () => {
    await revoke("--since", "2020-01-01T00:00:00Z");
    expect(await revokedSerials()).toHaveLength(leaves.length);
    expect(operator.terminal.said).toContain("left out 1 of the chosen certificates: JWT-SVIDs, ");
  });

  test("nothing where nothing matches", async () => {
    expect(await revoke("--node", "elsewhere")).toBe("There is nothing to revoke.");
  });

  test("no cluster by an alias, or by a name that no entry has", async () => {
    const refusal = "no entry has elsewhere: there are Kubernetes";
    await expect(revoke("--cluster", "elsewhere")).rejects.toThrow(refusal);
  });

  test("no serial number that the log has not", async () => {
    await expect(revoke("01ab")).rejects.toThrow("01ab is not in the log");
    expect(await revokedSerials()).toEqual([]);
  });

  test("no certificate of an authority that is not in the trust bundle", async () => {
    const store = await FileStore.open(operator.file("store"));
    for (const { kind, id } of await store.load()) await store.delete({ kind, id });
    await expect(revoke("--spiffe-id", bar)).resolves.toBe("There is nothing to revoke.");
    const why = "4 of the chosen certificates: signed by no authority in the trust bundle";
    expect(operator.terminal.said).toContain(`left out ${why}`);
  });
});

describe("log search, beside the store of the CA,", () => {
  const search = (...words: readonly string[]) =>
    operator.terminal.run(logCommand, ["search", "--url", ca.url, ...words]);
  const config = () => ["-c", operator.config];

  async function marks(): Promise<readonly unknown[]> {
    const lines = (await search("--json", ...config())).split("\n");
    return lines
      .map((line) => JSON.parse(line))
      .toSorted((a, b) => a.index - b.index)
      .map(({ distrust }) => distrust && [distrust.state, distrust.detail]);
  }

  test("says when and why a certificate was revoked", async () => {
    await revoke(serialOf(leaves[2]), "--reason", "keyCompromise", "--why", "case 117");
    const revoked = ["revoked", "keyCompromise, case 117"];
    expect(await marks()).toEqual([null, null, null, revoked, null, null, null]);
    const at = ca.ca.now().toISOString().slice(0, 16).replace("T", " ");
    const told = await search("--account", "other", ...config());
    expect(told).toMatch(/ STATED$/m);
    expect(told).toContain(` revoked ${at}Z keyCompromise, case 117`);
  });

  test("says what only the configuration states, and whom the store denies", async () => {
    const [line = ""] = /^REVOKED = .*?^\]$/ms.exec(await revoke(serialOf(leaves[1]))) ?? [];
    await rm(operator.file("store/revocations"), { recursive: true });
    const other = "spiffe://cluster.local/ns/foo/sa/other";
    await operator.run(denyCommand, ["add", other, "--yes"]);
    const denied = 'DENIED = [{ subject = "spiffe://cluster.local/ns/shop/sa/cart" }]';
    await operator.configure(line, denied);
    const states = (await marks()).map((mark) => (Array.isArray(mark) ? mark[0] : mark));
    expect(states).toEqual([null, null, "revoked", "denied", null, null, "denied"]);
  });

  test("without --config shows no state of a certificate, and says which option would", async () => {
    await revoke(serialOf(leaves[2]));
    expect(await search()).not.toContain("STATED");
    expect(operator.terminal.said).toContain(
      "--config names the CA that knows what is revoked or denied",
    );
  });
});
