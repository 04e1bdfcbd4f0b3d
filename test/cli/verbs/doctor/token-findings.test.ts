import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeDocuments } from "../../../../src/cli/verbs/authority/documents.ts";
import { tokenFindings } from "../../../../src/cli/verbs/doctor/world-findings.ts";
import { Kek } from "../../../../src/custody/kek.ts";
import { FetchError } from "../../../../src/foundation/fetch.ts";
import { createMemoryMint } from "../../../testkit/ca/memory-mint.ts";
import { createMemorySession } from "../../../testkit/ca/memory-session.ts";
import { startCa } from "../../../testkit/ca/running-ca.ts";
import type { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const issuer = "https://ca.test/mesh";
const tokens = { issuer, algorithm: "ES256", defaultSeconds: 300, maximumSeconds: 3600 } as const;
const ca = await startCa({ JWT_ISSUER: issuer });
await ca.rotate();
const view = await ca.certificateAuthority.issuance.authorities.at(ca.now());

const served = async (url: string): Promise<unknown> =>
  (await ca.app.request(url)).json().catch(() => {
    throw new FetchError("answered 404");
  });

const doctored =
  (change: object) =>
  async (url: string): Promise<unknown> => ({ ...Object(await served(url)), ...change });

test("finds nothing wrong where the CA itself answers", async () => {
  expect(await tokenFindings(tokens, view, served)).toEqual([]);
  const newer = { ...view, tokenKeys: view.tokenKeys.flatMap((key) => [key, { ...key, id: "b" }]) };
  expect(await tokenFindings(tokens, newer, served)).toMatchObject([
    { what: expect.stringContaining("without the key b") },
  ]);
});

test.each([
  ["another issuer", doctored({ issuer: "https://ca.test" }), "names another issuer"],
  ["no key of the store", doctored({ keys: [] }), "without the key"],
  ["something else", async () => "hello", "is no discovery document"],
  ["nothing", () => Promise.reject(new FetchError("answered 404")), "be read: answered 404"],
])("finds an issuer where relying parties read %s", async (_, fetchJson, fault) => {
  const findings = await tokenFindings(tokens, view, fetchJson);
  expect(findings).toMatchObject([
    { name: "jwt-issuer-elsewhere", what: expect.stringContaining(fault) },
  ]);
});

test("the documents of a folder are those of the CA, and are replaced when they change", async () => {
  const dir = await temporaryFolder();
  const session = createMemorySession(
    createMemoryMint([await Kek.import("k1", new Uint8Array(32))]),
    ca.now(),
  );
  const own = {
    ...session,
    configuration: { ...session.configuration, tokens },
    currentView: async () => view,
  };
  for (let i = 0; i < 2; i++) await writeDocuments(own, { dir });
  // Each once: the key set first, which the discovery document names, for everybody to read.
  const files = ["jwks.json", "openid-configuration"].map((name) => join(dir, ".well-known", name));
  expect((session.terminal as MemoryTerminal).printed.trim().split("\n")).toEqual(files);
  for (const file of files) expect((await stat(file)).mode & 0o777).toBe(0o644);
  for (const path of [".well-known/openid-configuration", ".well-known/jwks.json"]) {
    const answer = await ca.app.request(`${issuer}/${path}`);
    expect(await readFile(join(dir, path), "utf8")).toBe(await answer.text());
  }
  await expect(writeDocuments(session, { dir })).rejects.toThrow("JWT_ISSUER is not set");
  const store = { ...view.store, tokenKeys: [] };
  const empty = { ...own, currentView: async () => ({ ...view, tokenKeys: [], store }) };
  const elsewhere = join(dir, "new");
  const writing = writeDocuments(empty, { dir: elsewhere });
  await expect(writing).rejects.toThrow("no key for JWT-SVIDs is published");
  // A taint may have taken the only key.
  const tainted = { ...own, currentView: async () => ({ ...view, tokenKeys: [] }) };
  await writeDocuments(tainted, { dir });
  expect(await readFile(join(dir, ".well-known/jwks.json"), "utf8")).toBe('{"keys":[]}\n');
});
