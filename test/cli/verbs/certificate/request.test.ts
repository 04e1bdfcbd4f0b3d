import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { passToNow, startControlledCas } from "../../../client/controlled-ca.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const { found, close } = await startControlledCas();
afterAll(close);

/** A CA whose clock shows the time of the verb, and a file with a token. */
async function stage() {
  const { url, ca, mint } = await found();
  await passToNow(ca);
  const folder = await temporaryFolder();
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await mint());
  const type = async (...words: readonly string[]) => {
    const usual = ["--url", url, "--token-file", tokenFile, "--out", join(folder, "out")];
    const terminal = await MemoryTerminal.ran(["certificate", "request", ...usual, ...words]);
    return { code: terminal.exitCode, printed: terminal.printed, said: terminal.said };
  };
  return { type, tokenFile, out: join(folder, "out") };
}

test("writes key, chain and roots as an agent does, for nobody else to read", async () => {
  const { type, out } = await stage();
  const { code, printed, said } = await type();
  expect([code, said]).toEqual([undefined, ""]);
  expect(printed).toMatch(/^spiffe:\/\/cluster\.local\/ns\/foo\/sa\/bar, until 2\d{3}-/);
  const text = (name: string) => readFile(join(out, name), "utf8");
  const leaf = new X509Certificate(await text("cert-chain.pem"));
  // The successor of the authority may be published already.
  const roots = (await text("root-cert.pem")).split(/(?<=-----END CERTIFICATE-----\n)/);
  const keys = roots.map((pem) => new X509Certificate(pem).publicKey);
  expect(leaf.checkPrivateKey(createPrivateKey(await text("key.pem")))).toBe(true);
  expect(keys.some((key) => leaf.verify(key))).toBe(true);
  // As in Istio, the chain ends with the roots.
  expect(await text("cert-chain.pem")).toContain(await text("root-cert.pem"));
  expect((await stat(join(out, "key.pem"))).mode & 0o777).toBe(0o600);
});

test("gets another key each time", async () => {
  const { type, out } = await stage();
  await type();
  const first = await readFile(join(out, "key.pem"), "utf8");
  const { printed } = await type("--json");
  expect(JSON.parse(printed)).toMatchObject({ spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" });
  expect(await readFile(join(out, "key.pem"), "utf8")).not.toBe(first);
});

test.each([
  ["capitals", ["--trust-domain", "Mesh.Test"], 2, "a trust domain, in lower-case letters"],
  ["a URL without TLS", ["--url", "http://ca.example.com"], 2, "a client needs an https URL"],
  ["another trust domain", ["--trust-domain", "other.test"], 1, "for another SPIFFE ID"],
  [
    "a CA whose port nobody listens on",
    ["--url", "http://127.0.0.1:9"],
    1,
    "no usable answer from the CA: ECONNREFUSED",
  ],
  ["a token file that is not there", ["--token-file", "/none"], 1, "/none does not exist"],
])("refuses %s in one sentence, and writes nothing", async (_what, words, code, sentence) => {
  const { type, out } = await stage();
  const refused = await type(...words);
  expect(refused).toMatchObject({ code, printed: "" });
  expect(refused.said).toMatch(new RegExp(`^rampart: .*(?:${sentence}).*\\n$`));
  await expect(stat(out)).rejects.toMatchObject({ code: "ENOENT" });
});

test("says that the CA refuses a token, and shows nothing of it", async () => {
  const { type, tokenFile } = await stage();
  await writeFile(tokenFile, "eyJhbGciOiJFUzI1NiJ9.e30.c2ln");
  const { code, said } = await type();
  expect(code).toBe(1);
  expect(said).toMatch(/^rampart: http.*: the CA answered Unauthenticated: .*\n$/);
  expect(said).not.toContain("eyJ");
});
