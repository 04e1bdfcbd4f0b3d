import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { LogEntry } from "../../../../src/ca/issuance/log-entry.ts";
import type { Bytes } from "../../../../src/pki/encoding/bytes.ts";
import { VerifierKey } from "../../../../src/tlog/note/verifier-key.ts";
import { Tile } from "../../../../src/tlog/tile.ts";
import { tokenEntry } from "../../../testkit/log/token-entry.ts";
import { startTlsServer } from "../../../testkit/network/loopback-tls.ts";
import { createCa } from "../../../testkit/pki/plugged-in.ts";
import {
  type Answer,
  createOperatorFolder,
  type OperatorFolder,
  rampartHere,
} from "../../../testkit/programs/command-line.ts";
import { type LoggedCa, startLoggedCa } from "../../../testkit/tlog/logged-ca.ts";
import { createCosigner } from "../../../testkit/tlog/stand-in-witness.ts";

let folder: OperatorFolder;
let ca: LoggedCa;
const leaves: string[] = [];

beforeAll(async () => {
  [folder, ca] = await Promise.all([createOperatorFolder(), startLoggedCa()]);
  for (const account of ["foo:bar", "foo:bar", "foo:other"]) leaves.push(await ca.issue(account));
  await ca.log.publish();
  await writeFile(join(folder.path, "leaf.pem"), leaves[0] ?? "");
  await writeFile(join(folder.path, "roots.pem"), await ca.bundle());
});

afterAll(() => ca.end());

const log = (words: string, environment: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  rampartHere(folder, `log ${words}`, { RAMPART_LOG_TOKEN: ca.token, ...environment });

async function follow(words: string, staleAfter = "876000h") {
  const { code, stdout } = await log(`follow --url ${ca.url} --stale-after ${staleAfter} ${words}`);
  const lines = stdout.split("\n").filter((line) => line !== "");
  return { code, findings: lines.map((line) => JSON.parse(line)) };
}

/** The CA of one test, whose published log has its authority and these certificates. */
async function otherCa(count = 2, options: Parameters<typeof startLoggedCa>[0] = {}) {
  const other = await startLoggedCa(options);
  onTestFinished(other.end);
  const issued: string[] = [];
  for (let i = 0; i < count; i++) issued.push(await other.issue());
  await other.log.publish();
  const bundle = () => other.objects.stored.get(`tile/entries/000.p/${count + 1}`);
  const entries = () => Tile.parseBundle(bundle() ?? new Uint8Array(), count + 1);
  return { ...other, issued, entries, copy: `--url ${other.url} --dir ./copy-of-${copies++}` };
}

let copies = 0;

const entriesOf = (...entries: readonly (Bytes | undefined)[]): readonly Bytes[] =>
  entries.filter((each) => each !== undefined);

const serialOf = (pem: string): string => new X509Certificate(pem).serialNumber;

describe("rampart log", () => {
  test("tail shows the newest entries, the oldest of them first", async () => {
    const { code, stdout, stderr } = await log(`tail --url ${ca.url}`);
    expect(code).toBe(0);
    expect(stderr).toContain(`rampart: trusting ${ca.verifierKey}, as the server says\n`);
    expect((await log(`tail --url ${ca.url} -n 4`)).stderr).toContain("the newest 4; see -n");
    const [headings = "", ...rows] = stdout.trimEnd().split("\n");
    expect(headings).toMatch(/^INDEX +TIME +SERIAL +NAME +CLUSTER +NODE +POD +PROOF$/);
    expect(rows.map((row) => row.replace(/.*spiffe:\/\/(\S+) .* (\S+)$/, "$1 $2"))).toEqual([
      "cluster.local authority",
      ...["bar", "bar", "other"].map((name) => `cluster.local/ns/foo/sa/${name} token`),
    ]);
  });

  test("search finds by name, and prints JSON with the certificate", async () => {
    const words = "--spiffe-id spiffe://cluster.local/ns/foo/sa/other --json";
    const { stdout } = await log(`search --url ${ca.url} ${words}`);
    const [entry, ...more] = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(more).toEqual([]);
    expect(entry).toMatchObject({ index: 3, proof: "token", pod: { name: "other-0" } });
    expect(entry.certificatePem).toBe(leaves[2]);
  });

  test("reads a log that also has tokens, and proves their entries", async () => {
    const mixed = await otherCa(1);
    const entry = tokenEntry();
    await mixed.log.append(LogEntry.format(entry));
    await mixed.log.publish();
    const { jti, expiresAt } = entry.token;
    const read = (words: string) => log(`${words} --url ${mixed.url}`);
    expect((await read("check")).stdout).toContain("3 entries, all of them verified");
    const { stdout } = await read(`search --serial ${jti} --json`);
    expect(JSON.parse(stdout)).toMatchObject({ kind: "token", serial: jti, notAfter: expiresAt });
    expect(JSON.parse(stdout)).not.toHaveProperty("certificatePem");
    expect((await read("tail")).stdout).toMatch(/TOKEN FOR[\s\S]* sts\.amazonaws\.com/);
    expect((await read(`prove ${jti}`)).stdout).toContain("c2sp.org/tlog-proof");
    const followed = await read("follow --stale-after 876000h --dir ./mixed");
    expect(followed.stdout).not.toContain("unknown-authority");
  });

  test("search takes a serial number in any spelling, and shows it as OpenSSL does", async () => {
    const serial = serialOf(leaves[1] ?? "");
    const inPairs = serial.replace(/..(?=.)/g, "$&:");
    for (const spelling of [serial, `00:${inPairs}`, serial.toLowerCase().slice(1)]) {
      const { stdout } = await log(`search --url ${ca.url} --serial ${spelling} --json`);
      expect(JSON.parse(stdout)).toMatchObject({ index: 2, serial: serial.toLowerCase() });
    }
    const { stdout } = await log(`search --url ${ca.url} --serial ${serial}`);
    expect(stdout).toContain(` ${serial.toLowerCase()} `);
  });

  test.each([
    ["--until 876000h", []],
    ["--since 876000h", [0, 1, 2, 3]],
    ["--until 2020-01-01T00:00:00Z", []],
    ["--since 2020-01-01T00:00:00+01:00", [0, 1, 2, 3]],
    ["--node elsewhere", []],
    ["--namespace foo", [1, 2, 3]],
    ["--namespace fo* --account bar", [1, 2]],
    ["--account other", [3]],
    ["--account othe", []],
    ["--namespace oo", []],
    ["--cluster Kubernetes --account o*r", [3]],
    ["--pod other-0", [3]],
    ["--pod 2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21 --account bar", [1, 2]],
    ["--pod other", []],
  ])("search finds by %s", async (words, indices) => {
    const { code, stdout } = await log(`search --url ${ca.url} ${words} --json`);
    expect(code).toBe(0);
    const lines = stdout.split("\n").filter((line) => line !== "");
    expect(lines.map((line) => JSON.parse(line).index).toSorted()).toEqual(indices);
  });

  const anInstant = "must be an instant such as 2026-11-22T12:00:00Z, 30d or 24h";
  const aSerial = "must be two hexadecimal digits or more, with or without colons";
  test.each([
    ["--since=2026-11-22", anInstant],
    ["--since=2026-11-22T12:00:00", anInstant],
    ["--since=2026-02-30T12:00:00Z", anInstant],
    ["--serial=", aSerial],
    ["--serial=serial=01ab", aSerial],
    ["--serial=zz", aSerial],
    ["--serial=01-ab", aSerial],
    [`--serial=${"ab".repeat(33)}`, aSerial],
    ["--spiffe-id spiffe://cluster.local/ns/foo/sa/*", "--namespace and --account take globs"],
    ["--spiffe-id foo/sa/bar", "must be a whole SPIFFE ID"],
    ["--cluster Kube*", "must be the whole name of a cluster"],
    ["--cluster kubernetes", "no entry has kubernetes: there are Kubernetes"],
    ["--node worker*", "must be the whole name of a node"],
    ["--pod other-*", "must be the whole name or the UID"],
    ["--namespace spiffe://foo", "must be a namespace"],
    ["--account foo/bar", "must be an account"],
    ["--serial 1234567890", "this CA cannot have chosen it"],
    ["--since 1h --until 2h", "--since must be before --until"],
    ["--name foo", "unknown option '--name'"],
  ])("search refuses %s, which finds nothing", async (words, sentence) => {
    const { code, stdout, stderr } = await log(`search --url ${ca.url} ${words}`);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(sentence);
  });

  test("search names the shard to give where the address is of none", async () => {
    const { code, stderr } = await log(`search --url ${ca.url.replace(/\/0$/, "")}`);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`give --url ${ca.url}`)]);
    const found = await log(`search ${/--url \S+/.exec(stderr)?.[0]} --account other --json`);
    expect(found.code).toBe(0);
  });

  test("prove makes a proof that verify accepts without a connection", async () => {
    const proved = await log(`prove ./leaf.pem --url ${ca.url}`);
    expect(proved.code).toBe(0);
    await writeFile(join(folder.path, "leaf.tlog-proof"), proved.stdout);
    const good = await log(`verify ./leaf.pem ./leaf.tlog-proof --key ${ca.verifierKey}`);
    expect(good).toMatchObject({ code: 0, stdout: expect.stringContaining("at index 1") });
    const json = await log(`verify ./leaf.pem ./leaf.tlog-proof --key ${ca.verifierKey} --json`);
    expect(JSON.parse(json.stdout)).toMatchObject({ index: 1, issuedAt: expect.any(String) });
    await writeFile(join(folder.path, "other.pem"), leaves[2] ?? "");
    const bad = await log(`verify ./other.pem ./leaf.tlog-proof --key ${ca.verifierKey}`);
    const another = expect.stringContaining("the proof is another certificate's");
    expect(bad).toMatchObject({ code: 1, stdout: "", stderr: another });
    const untrusted = await log("verify ./leaf.pem ./leaf.tlog-proof");
    expect(untrusted).toMatchObject({ code: 2, stderr: expect.stringContaining("--policy") });
    expect(await log(`prove 0123456789abcdef --url ${ca.url}`)).toMatchObject({ code: 3 });
  });

  test("verify tells a certificate that is in the log from a thief's and from a stranger's", async () => {
    const known = await log(`verify ./leaf.pem --url ${ca.url}`);
    expect(known).toMatchObject({ code: 0, stdout: expect.stringContaining("foo/sa/bar") });
    const json = JSON.parse((await log(`verify ./leaf.pem --url ${ca.url} --json`)).stdout);
    expect(json).toMatchObject({ index: 1, spiffeId: expect.stringContaining("foo/sa/bar") });
    const foreign = await otherCa(1);
    await writeFile(join(folder.path, "foreign-leaf.pem"), foreign.issued[0] ?? "");
    await writeFile(join(folder.path, "foreign-roots.pem"), await foreign.bundle());
    // The number of a certificate is not the certificate.
    const { pem } = await createCa("O=thief", { serialNumber: serialOf(leaves[0] ?? "") });
    await writeFile(join(folder.path, "same-number.pem"), pem);
    expect(await log(`verify ./same-number.pem --url ${ca.url}`)).toMatchObject({ code: 3 });
    const strange = await log(`verify ./foreign-leaf.pem --url ${ca.url}`);
    expect(strange).toMatchObject({ code: 3, stderr: expect.stringContaining("not among the 4") });
    expect(strange.stderr).toContain("it is not of this CA");
    const words = "--authorities ./foreign-roots.pem";
    const stolen = await log(`verify ./foreign-leaf.pem --url ${ca.url} ${words}`);
    expect(stolen).toMatchObject({ code: 3, stderr: expect.stringContaining("KEY IS STOLEN") });
  });

  test("verify says that another shard may have the certificate", async () => {
    const sharded = await otherCa(1, { otherShards: ["1", "2"] });
    const { code, stderr } = await log(`verify ./leaf.pem --url ${sharded.url}`);
    expect(code).toBe(3);
    const parent = sharded.url.slice(0, -1);
    expect(stderr).toContain(`Ask the other shards first: ${parent}1, ${parent}2`);
  });

  test("check verifies the whole log, under a key that the operator gives", async () => {
    const good = await log(`check --url ${ca.url} --key ${ca.verifierKey}`);
    expect(good).toMatchObject({ code: 0, stdout: expect.stringContaining("4 entries, all") });
    const other = await otherCa(0);
    const bad = await log(`check --url ${ca.url} --key ${other.verifierKey}`);
    expect(bad).toMatchObject({ code: 4, stdout: "" });
    // So does a copy that nobody updates.
    await follow("--dir ./kept");
    expect(await log("tail --dir ./kept")).toMatchObject({ code: 0 });
    expect(await log(`tail --dir ./kept --key ${other.verifierKey}`)).toMatchObject({ code: 4 });
  });

  test("a policy whose witness has not cosigned ends check, and is a finding of follow", async () => {
    const { privateKey, publicKey } = await VerifierKey.generate();
    const witness = createCosigner("w1", privateKey, await VerifierKey.raw(publicKey));
    const text = `log ${ca.verifierKey}\nwitness w1 ${VerifierKey.format(witness.key)}\nquorum w1\n`;
    await writeFile(join(folder.path, "policy"), text);
    const checked = await log(`check --url ${ca.url} --policy ./policy`);
    expect(checked).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("too few witnesses"),
    });
    const { code, findings } = await follow(
      "--dir ./quorum --policy ./policy --authorities ./roots.pem",
    );
    expect([code, findings.map(({ finding }) => finding)]).toEqual([3, ["quorum-lost"]]);
  });

  test("wants the roots of a server that the system does not trust, and reads its log with them", async () => {
    const { origin, ca: roots } = await startTlsServer(async ({ url = "", headers }, response) => {
      const { authorization = "" } = headers;
      const answer = await fetch(new URL(url, ca.url), { headers: { authorization } });
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    const url = ca.url.replace(new URL(ca.url).origin, origin);
    const refused = await log(`tail --url ${url}`);
    expect(refused.stderr).toContain("give --ca the roots of its certificate");
    const file = join(folder.path, "tls.pem");
    await writeFile(file, roots);
    expect((await log(`tail --url ${url} --ca ${file}`)).code).toBe(0);
  });

  test("wants the token of a reader, and a log", async () => {
    const denied = await log(`tail --url ${ca.url}`, { RAMPART_LOG_TOKEN: "x".repeat(40) });
    expect(denied).toMatchObject({ code: 1, stderr: expect.stringContaining("RAMPART_LOG_TOKEN") });
    expect(await log("tail")).toMatchObject({ code: 2, stderr: expect.stringContaining("--url") });
    const clear = await log("tail --url http://log.example.com/log/0");
    expect(clear).toMatchObject({ code: 2, stderr: expect.stringContaining("an https URL") });
  });

  test("follow copies what is new, and has no findings in an honest log", async () => {
    const first = await follow("--dir ./copy --authorities ./roots.pem");
    expect(first).toEqual({ code: 0, findings: [] });
    const { stdout } = await log("search --dir ./copy --json");
    expect(stdout.trimEnd().split("\n")).toHaveLength(4);
    const proved = await log("prove ./leaf.pem --dir ./copy");
    expect(proved).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^c2sp.org\/tlog-proof/),
    });
  });

  test("follow finds a certificate of an unknown authority, one line each", async () => {
    await writeFile(join(folder.path, "foreign.pem"), await (await otherCa(0)).bundle());
    const { code, findings } = await follow("--dir ./c2 --authorities ./foreign.pem");
    expect(code).toBe(3);
    expect(findings.map(({ finding, index }) => [finding, index])).toEqual([
      ["authority-appeared", 0],
      ...[1, 2, 3].map((index) => ["unknown-authority", index]),
    ]);
  });

  const forks = "the log does not extend the copy";

  test.each<[string, (entries: readonly Bytes[]) => readonly Bytes[], "same" | "new", string]>([
    ["a fork of the same size", ([a, b, c]) => entriesOf(a, c, b), "same", forks],
    ["a fork that has grown", ([a, b, c]) => entriesOf(a, c, b, c), "same", forks],
    ["a fork that has shrunk", ([a, b]) => entriesOf(a, b), "same", forks],
    ["the same history under another key", (entries) => entries, "new", ""],
  ])("every verb that has a copy refuses %s, as evidence", async (_, change, key, sentence) => {
    const other = await otherCa();
    for (let i = 0; i < 2; i++) expect(await log(`check ${other.copy}`)).toMatchObject({ code: 0 });
    await other.fork(change(other.entries()), key);
    for (const verb of ["check", "follow", "search", "tail"]) {
      const { code, stdout, stderr } = await log(`${verb} ${other.copy}`);
      expect({ verb, code, stdout }).toEqual({ verb, code: 4, stdout: "" });
      expect(stderr).toContain(sentence);
    }
    // A stranger to the first history sees nothing wrong with the second.
    expect(await log(`check --url ${other.url}`)).toMatchObject({ code: 0 });
  });

  test("a certificate and a proof of a fork are no better than the fork", async () => {
    const other = await otherCa();
    const [, dir] = other.copy.split(/(?=--dir)/);
    await writeFile(join(folder.path, "old.pem"), other.issued[0] ?? "");
    const proving = async (file: string) => {
      const { stdout } = await log(`prove ./old.pem --url ${other.url}`);
      await writeFile(join(folder.path, file), stdout);
    };
    expect(await log(`check ${other.copy}`)).toMatchObject({ code: 0 });
    await proving("honest.tlog-proof");
    const [first, second, third] = other.entries();
    await other.fork(entriesOf(first, third, second));
    await proving("forked.tlog-proof");
    for (const [words, code] of [
      [`./honest.tlog-proof ${dir}`, 0],
      ["./forked.tlog-proof", 0],
      [`./forked.tlog-proof ${dir}`, 4],
    ] as const) {
      const verified = await log(`verify ./old.pem ${words} --key ${other.verifierKey}`);
      expect([words, verified.code]).toEqual([words, code]);
    }
    for (const words of ["verify ./old.pem", "prove ./old.pem"]) {
      const { code, stderr } = await log(`${words} ${other.copy}`);
      expect([words, code, stderr]).toEqual([words, 4, expect.stringContaining(forks)]);
    }
  });

  test("check reads a log anew although its copy has verified it before", async () => {
    const other = await otherCa();
    expect(await log(`check ${other.copy}`)).toMatchObject({ code: 0 });
    other.objects.stored.set("tile/0/000.p/3", new Uint8Array(96));
    expect(await log(`check ${other.copy}`)).toMatchObject({ code: 4 });
    expect(await log(`check ${other.copy.replace(/.*(?=--dir)/, "")}`)).toMatchObject({ code: 2 });
  });

  test("follow refuses a log that has been rewritten, and keeps its copy", async () => {
    const other = await otherCa();
    expect(await log(`follow --url ${other.url} --dir ./c3`)).toMatchObject({ code: 3 });
    const { stored } = other.objects;
    const honest = stored.get("tile/entries/000.p/3") ?? new Uint8Array();
    await other.issue();
    await other.log.publish();
    stored.set("tile/entries/000.p/4", honest);
    expect(await log(`follow --url ${other.url} --dir ./c3`)).toMatchObject({ code: 4 });
    const { stdout } = await log("search --dir ./c3 --json");
    expect(stdout.trimEnd().split("\n")).toHaveLength(3);
    expect(await log(`follow --url ${ca.url} --dir ./c3`)).toMatchObject({ code: 4 });
  });
});
