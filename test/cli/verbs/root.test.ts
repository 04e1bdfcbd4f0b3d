import { writeFile } from "node:fs/promises";
import { beforeEach, expect, test } from "vitest";
import { rootCommand } from "../../../src/cli/verbs/root.ts";
import { fingerprintOf } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { createRoot, type RootOptions } from "../../testkit/pki/foreign-root.ts";
import { createCa, generateKeys, writeCacerts } from "../../testkit/pki/plugged-in.ts";
import { Operator } from "../operator.ts";

const now = new Date("2026-06-01T12:00:00Z");
const notAfter = new Date("2030-01-01T00:00:00Z");

let operator: Operator;

const authority = (...words: readonly string[]) => operator.authority(...words);
const root = (...words: readonly string[]) => operator.run(rootCommand, words);

const made = async (options: Partial<RootOptions>): Promise<string> =>
  Pem.format("CERTIFICATE", await createRoot({ notAfter, ...options }));
const idOf = (pem: string): string =>
  fingerprintOf(Pem.parse(pem, ["CERTIFICATE"]) ?? new Uint8Array());

async function add(...pems: readonly string[]): Promise<string> {
  await writeFile(operator.file("roots.pem"), pems.join(""));
  return root("add", operator.file("roots.pem"));
}

async function listed(): Promise<readonly string[]> {
  const roots = JSON.parse(await root("list", "--json"));
  return roots.map(({ id }: { id: string }) => id).toSorted();
}

async function ownRoot(): Promise<string> {
  const [own] = await operator.authorities();
  const shown = await authority("show", own?.id ?? "");
  return `${shown.slice(shown.lastIndexOf("-----BEGIN"))}\n`;
}

const east = await made({ name: "O=east" });
const west = await made({ name: "O=west" });

beforeEach(async () => {
  operator = await Operator.create(now, 'PROPAGATION_INTERVAL = "600s"');
});

test("adds the roots of a file once every replica can have them, and each once", async () => {
  await authority("init", "--yes");
  await add(await ownRoot(), east);
  expect(await listed()).toEqual([idOf(east)]);
  const [{ schedule }] = JSON.parse(await root("list", "--json"));
  expect(schedule.publishedFrom).toBe("2026-06-01T12:10:00.000Z");
  await add(east, west);
  expect(await listed()).toEqual([east, west].map(idOf).toSorted());
  await expect(add(east)).rejects.toThrow(`${idOf(east)} is trusted already`);
  await expect(add(await ownRoot())).rejects.toThrow(" is the root of authority ");
});

test("adds no root that an authority has already, which would outlive a taint", async () => {
  const company = await createCa("O=company");
  const ca = await createCa("O=mesh", { issuer: company });
  await authority("import", await writeCacerts(operator.file("."), ca, { roots: company.pem }));
  await add(company.pem, east);
  expect(await listed()).toEqual([idOf(east)]);
});

test.each<[string, () => Promise<string>, string]>([
  [
    "that only has the name of its issuer",
    async () => made({ name: "O=north", issuer: { name: "O=north", keys: await generateKeys() } }),
    "is not self-signed",
  ],
  [
    "of another one",
    async () => made({ name: "O=north", issuer: { name: "O=east", keys: await generateKeys() } }),
    "is not self-signed",
  ],
  ["of a server", async () => (await createTlsIdentity()).ca, "is not a CA's"],
  ["that has just ended", () => made({ notAfter: now }), "has expired"],
])("refuses a certificate %s, and all beside it", async (_, make, sentence) => {
  await authority("init", "--yes");
  await expect(add(east, await make())).rejects.toThrow(
    `${operator.file("roots.pem")}: holds a certificate that ${sentence}`,
  );
  expect(await listed()).toEqual([]);
});

test("adds no root that the configuration taints", async () => {
  await authority("init", "--yes");
  await operator.configure(`TAINTED_AUTHORITIES = ["${idOf(east).slice(0, 16)}"]`);
  await expect(add(west, east)).rejects.toThrow(`${idOf(east)} is in TAINTED_AUTHORITIES`);
  expect(await listed()).toEqual([]);
});

test("asks before it removes one, once every reader can know of it, for good", async () => {
  await authority("init", "--yes");
  await add(east, west);
  await expect(root("remove", idOf(east))).rejects.toThrow(
    `Remove ${idOf(east)} from the trust bundle at 2026-06-01 12:10Z? `,
  );
  expect(await listed()).toHaveLength(2);
  const [leaving] = JSON.parse(await root("list", "--json"));
  expect(leaving.isTainted).toBe(false);
  await root("remove", idOf(east), "--yes");
  await expect(add(east)).rejects.toThrow(
    `${idOf(east)} was removed at 2026-06-01 12:00Z and cannot be added again`,
  );
});

test("prints one line with the removals before it, and refuses one that changes nothing", async () => {
  await authority("init", "--yes");
  await add(east, west);
  const [first = "", second = ""] = await listed();
  await root("remove", first, "--yes", "--after", "0s");
  const told = await root("remove", second, "--yes", "--after", "24h");
  const [line = ""] = /^TAINTED_AUTHORITIES = .*$/m.exec(told) ?? [];
  expect(line).toBe(
    `TAINTED_AUTHORITIES = [{ id = "${first}", root_until = "2026-06-01T12:00:00Z" }, { id = "${second}", root_until = "2026-06-02T12:00:00Z" }]`,
  );
  await expect(root("remove", first, "--yes")).rejects.toThrow(/has left the trust bundle/);
  await expect(root("remove", second, "--yes", "--after", "25h")).rejects.toThrow(
    /removed already, and leaves the bundle 2026-06-02 12:00Z$/,
  );
  await operator.configure(line);
  const sooner = await root("remove", second, "--yes", "--after", "1h");
  expect(sooner).toContain(`"${second}", root_until = "2026-06-01T13:00:00Z" }]`);
  expect(sooner.match(/root_until/g)).toHaveLength(2);
});
