import { X509Certificate } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { installedTools } from "../../../../src/cli/session/local-worker.ts";
import {
  fileFindings,
  roomFindings,
  toolFindings,
} from "../../../../src/cli/verbs/doctor/machine-findings.ts";
import { servingFindings } from "../../../../src/cli/verbs/doctor/serving-findings.ts";
import { wranglerVersion } from "../../../../src/cli/versions.ts";
import { AuthorityStore } from "../../../../src/custody/authority-store.ts";
import { createTlsIdentity, type TlsIdentity } from "../../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const tested = { wrangler: wranglerVersion, workerd: "1.20261117.1" };
const date = "2026-11-17";
const mebibyte = 1024 * 1024;

test("the tools of the tests have no finding", () => {
  expect(installedTools("wrangler.toml")).toEqual(tested);
  expect(toolFindings(tested, date)).toEqual([]);
});

test.each([
  ["wrangler", "4.165.0"],
  ["wrangler", "5.0.0"],
  ["workerd", "1.20261120.1"],
])("a newer %s %s has no finding", (tool, version) => {
  expect(toolFindings({ ...tested, [tool]: version }, date)).toEqual([]);
});

test.each([
  ["3.18.9", "CVE-2023-7080"],
  ["4.59.0", "CVE-2026-0933"],
  ["4.163.0", `tested with ${wranglerVersion}.`],
])("wrangler %s is found: %s", (wrangler, what) => {
  const found = toolFindings({ ...tested, wrangler }, date);
  expect(found).toMatchObject([{ name: "wrangler-version", what: expect.stringContaining(what) }]);
});

test("an old wrangler that has the mend of a CVE gets no finding about that CVE", () => {
  const [found] = toolFindings({ ...tested, wrangler: "4.59.1" }, date);
  expect(found?.what).not.toContain("CVE");
});

test.each([
  ["1.20260511.0", "2026-05-01", "client certificate"],
  ["1.20261116.0", date, "compatibility_date 2026-11-17"],
])("workerd %s is found at %s: %s", (workerd, compatibilityDate, what) => {
  const found = toolFindings({ ...tested, workerd }, compatibilityDate);
  expect(found).toMatchObject([{ name: "workerd-version", what: expect.stringContaining(what) }]);
});

const longest = AuthorityStore.maximumRecordOctets;

test.each([
  ["full where the longest record has no room", longest - 1, ["store-full", "error"]],
  ["nearly full where it has", longest, ["store-nearly-full", "warning"]],
  ["nearly full below 16 MiB", 16 * mebibyte - 1, ["store-nearly-full", "warning"]],
  ["not found from there on", 16 * mebibyte, []],
])("a disk is %s", (_, left, expected) => {
  const found = roomFindings("store", left);
  expect(found.flatMap(({ name, severity }) => [name, severity])).toEqual(expected);
});

test.each<[string, () => Promise<Partial<TlsIdentity>>, string | undefined]>([
  ["its own", async () => ({}), undefined],
  [
    "those of two keys",
    async () => ({ key: (await createTlsIdentity()).key }),
    "belongs to another key",
  ],
  ["none", async () => ({ ca: "none" }), "is damaged"],
])("the files of a serving certificate with %s", async (_, change, why) => {
  const { ca, key } = { ...(await createTlsIdentity()), ...(await change()) };
  const folder = await temporaryFolder();
  const files = { certificate: join(folder, "tls.crt"), key: join(folder, "tls.key") };
  await writeFile(files.certificate, ca);
  await writeFile(files.key, key, { mode: 0o600 });
  const found = async (now: Date) => (await servingFindings(files, now)).map(({ what }) => what);
  expect(await found(new Date())).toEqual(why ? [expect.stringContaining(why)] : []);
  const end = why === undefined && new X509Certificate(ca).validToDate;
  if (end)
    expect(await found(end)).toEqual([expect.stringContaining(` ended at ${end.toISOString()}`)]);
});

test("the disk of a store that is absent is not looked at, and that of one which is there has room", async () => {
  const folder = await temporaryFolder();
  await chmod(folder, 0o700);
  expect(await fileFindings(folder)).toEqual([]);
  expect(await fileFindings(`${folder}/absent`)).toEqual([]);
});
