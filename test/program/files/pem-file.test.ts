import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { beforeAll, describe, expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import {
  maximumPemOctets,
  PemFile,
  parseCertificates,
} from "../../../src/program/files/pem-file.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { lastingFolder, temporaryFolder } from "../../testkit/temporary-folder.ts";

const folder = await lastingFolder();
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  await writeFile(at("file"), "PEM");
  await symlink("file", at("link"));
  await writeFile(at("longest"), "x".repeat(maximumPemOctets));
  await writeFile(at("too-long"), "x".repeat(maximumPemOctets + 1));
  await mkdir(at("folder"));
  execFileSync("mkfifo", [at("pipe")]);
  await symlink("/dev/zero", at("endless"));
});

const readers = [
  ["read", PemFile.read],
  ["readNow", async (path: string) => PemFile.readNow(path)],
] as const;

describe.each(readers)("%s", (_, read) => {
  test.each(["file", "link"])("reads a %s", async (name) => {
    expect(await read(at(name))).toBe("PEM");
  });

  test("reads the longest file", async () => {
    expect(await read(at("longest"))).toHaveLength(maximumPemOctets);
  });

  // A pipe has no writer here, so that a reader who opens it waits for ever.
  test.each(["too-long", "folder", "pipe", "endless"])("refuses at once: %s", async (name) => {
    await expect(read(at(name))).rejects.toThrow("is not a file of at most 1048576 octets");
  });

  test("says that a file is missing", async () => {
    await expect(read(at("missing"))).rejects.toThrow(/does not exist|ENOENT/);
  });
});

const { pem } = await createTestAuthority("root");
const { pem: second } = await createTestAuthority("second");
const damaged = second.replace(/MII\w/, "AAAA");
const withRest = Pem.format(
  "CERTIFICATE",
  Buffer.concat([new X509Certificate(second).raw, Buffer.alloc(1)]),
);
const onOneLine = second.replaceAll("\n", " ");

async function rootFile(text: string | Uint8Array): Promise<string> {
  const file = join(await temporaryFolder(), "roots.pem");
  await writeFile(file, text);
  return file;
}

test.each([
  ["one root", pem],
  ["two roots", `${pem}\n${second}`],
  ["comments around its roots", `# first\n${pem}\n# second\n${second}`],
  ["lines that end as on Windows", pem.replaceAll("\n", "\r\n")],
])("a file with %s is read as it is", async (_, text) => {
  expect(await PemFile.readRoots(await rootFile(text))).toBe(text);
});

test("words around a root may have any encoding", async () => {
  const words = Buffer.from("friendlyName: Prüfstelle München\n", "latin1");
  const file = await rootFile(Buffer.concat([words, Buffer.from(pem)]));
  expect(parseCertificates((await PemFile.readRoots(file)) ?? "")).toHaveLength(1);
  expect(parseCertificates(PemFile.readNow(file))).toHaveLength(1);
});

test.each<[string, string | Uint8Array, string]>([
  ["nothing", "", "holds no certificate"],
  [
    "the first line of a certificate alone",
    "-----BEGIN CERTIFICATE-----\n",
    "has no proper end of PEM block 1",
  ],
  ["a certificate on one line", onOneLine, "has no proper end of PEM block 1"],
  ["a key", pem.replaceAll("CERTIFICATE", "PRIVATE KEY"), "holds no certificate"],
  ["a damaged certificate", damaged, "cannot be read"],
  ["a certificate with an octet after it", withRest, "cannot be read"],
  ["a damaged certificate after a good one", `${pem}\n${damaged}`, "cannot be read"],
  [
    "a block without base64 after a good one",
    `${pem}\n-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----\n`,
    "cannot be read",
  ],
  ["two certificates that share a line", pem.trim() + second, "no proper end of PEM block 1"],
  ["a certificate in UTF-16", Buffer.from(`\ufeff${pem}`, "utf16le"), "is text in UTF-16"],
  ["a mebibyte and more", `${pem}${"#".repeat(1024 * 1024)}`, "at most"],
])("a file that holds %s is refused", async (_, text, reason) => {
  const reading = PemFile.readRoots(await rootFile(text));
  await expect(reading).rejects.toThrow(OperatorError);
  await expect(reading).rejects.toThrow(reason);
});

test("a missing file and a folder are refused by name", async () => {
  await expect(PemFile.readRoots("/nowhere/roots.pem")).rejects.toThrow(
    "/nowhere/roots.pem does not exist",
  );
  await expect(PemFile.readRoots("/")).rejects.toThrow("/ is not a file");
});

test("without a file there are no roots of its own", async () => {
  expect(await PemFile.readRoots(undefined)).toBeUndefined();
});

test("every root of an operating system's bundle is read", () => {
  expect(rootCertificates.length).toBeGreaterThan(100);
  expect(parseCertificates(rootCertificates.join("\n"))).toHaveLength(rootCertificates.length);
});
