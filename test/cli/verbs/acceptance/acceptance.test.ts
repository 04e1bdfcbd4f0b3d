import { generateKeyPairSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { readerToken } from "../../../contract/log/log-values.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { startPlayedCa } from "./played-ca.ts";

const played = await startPlayedCa(
  { LOG_ORIGIN: "log.example.com/2026", LOG_INTERVAL: "1s" },
  { LOG_READERS: readerToken },
);
afterAll(played.end);

/** Without this, the rows about the log are skipped. */
const asReader = { environment: { RAMPART_LOG_TOKEN: readerToken } };

test("finds a CA good, in words and as a page, and shows no token", async () => {
  const html = join(await temporaryFolder(), "report.html");
  const words = ["--yes", "--calls", "20", "--html", html];
  const { printed, said, exitCode } = await played.type(words, asReader);
  expect(printed).toMatch(/\d+ good, 4 skipped: this deployment is sound from here\.\n$/);
  expect(exitCode).toBe(0);
  const page = await readFile(html, "utf8");
  expect(page).toContain("spiffe://cluster.local/ns/foo/sa/bar");
  expect(page).toContain("<circle");
  for (const text of [printed, said, page]) expect(text).not.toContain(played.token.slice(0, 20));
});

const verdictsIn = (printed: string): Readonly<Record<string, string>> => {
  const { rows } = JSON.parse(printed) as { rows: { name: string; verdict: string }[] };
  return Object.fromEntries(rows.map(({ name, verdict }) => [name, verdict]));
};

test("looks at the store, the cron and the checkup where the configuration is named", async () => {
  const config = ["--config", played.config];
  const { printed } = await played.type([...config, "--json"]);
  // No checkup finds the issuer of this test, which has no address.
  expect(verdictsIn(printed)).toMatchObject({ store: "good", cron: "good", doctor: "broken" });
  // Nobody has confirmed it.
  expect(verdictsIn(printed)).toMatchObject({ storm: "skipped" });
  const older = await played.playBehind(async (request, pass) => {
    const response = await pass(request);
    if (!request.url.endsWith("/bundle.json")) return response;
    const bundle = (await response.json()) as Record<string, unknown>;
    return Response.json({ ...bundle, spiffe_sequence: Number(bundle["spiffe_sequence"]) - 9e6 });
  }, config);
  expect(older.get("store")).toMatchObject({ verdict: "broken" });
});

test("takes a credential for good only where the CA refuses it", async () => {
  const other = await played.file("other", `${played.token.slice(0, -8)}AAAAAAAA`);
  const files = ["--refused-token-file", other, played.tokenFile];
  const { printed, exitCode } = await played.type([...files, "--json"]);
  const verdicts = verdictsIn(printed);
  expect(verdicts).toMatchObject({ "token-refused-1": "good", "token-refused-2": "broken" });
  expect(exitCode).toBe(4);
});

test("plays all else where somebody refuses the storm, and the log has other readers", async () => {
  const { printed, said } = await played.type(["--json"], { keys: "n\r" });
  expect(said).toContain("for 100 certificates at once, too? [y/N]");
  expect(verdictsIn(printed)).toMatchObject({
    storm: "skipped",
    "log-before": "skipped",
    connect: "good",
  });
  expect(printed).toContain("set RAMPART_LOG_TOKEN");
});

test.each([
  ["a URL without TLS", ["--url", "http://ca.example.com"], "must be an https URL"],
  ["a platform that there is not", ["--for", "moon"], "argument 'moon' is invalid"],
  ["more calls than a deployment should bear", ["--calls", "201"], "from 1 to 200"],
])("refuses %s in one sentence", async (_what, words, sentence) => {
  const { printed, said, exitCode } = await played.type(words);
  expect([printed, exitCode]).toEqual(["", 2]);
  expect(said).toContain(sentence);
});

const pkcs8 = { type: "pkcs8", format: "pem" } as const;

test.each([
  ["P-256", generateKeyPairSync("ec", { namedCurve: "P-256" })],
  ["RSA", generateKeyPairSync("rsa", { modulusLength: 2048 })],
  ["Ed25519", generateKeyPairSync("ed25519")],
])(
  "signs the page with a key of %s, as openssl verifies it",
  async (_kind, { privateKey, publicKey }) => {
    const folder = await temporaryFolder();
    const report = join(folder, "report.html");
    const sign = await played.file("key.pem", `${privateKey.export(pkcs8)}`);
    const key = await played.file(
      "key.pub",
      `${publicKey.export({ type: "spki", format: "pem" })}`,
    );
    const nobody = ["--url", "http://127.0.0.1:9", "--html", report, "--sign", sign];
    expect((await played.type(nobody)).exitCode).toBe(4);
    const verify = ["pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin", "-in", report];
    const said = await runWell("openssl", [...verify, "-sigfile", `${report}.sig`]);
    expect(said).toContain("Signature Verified Successfully");
  },
);

test("takes a key before anything is played, and only with a page to sign", async () => {
  const report = join(await temporaryFolder(), "report.html");
  const sign = ["--sign", played.roots];
  const refused = await played.type(["--html", report, ...sign]);
  expect(refused.said).toMatch(/roots\.pem holds no private key in PEM without a passphrase/);
  expect((await played.type(sign)).exitCode).toBe(2);
  await expect(readFile(report)).rejects.toThrow("ENOENT");
});

test("names a log that is served as it was before", async () => {
  let before: string | undefined;
  const rows = await played.playBehind(
    async (request, pass) => {
      const response = await pass(request);
      if (!request.url.endsWith("/checkpoint")) return response;
      before ??= await response.text();
      return new Response(before);
    },
    ["--wait", "1s"],
    asReader,
  );
  expect(rows.get("log-before")).toMatchObject({ verdict: "good" });
  expect(rows.get("log-after")).toMatchObject({ verdict: "broken" });
  expect(rows.get("log-after")?.measured).toContain("are not in the log");
});

test("names a log whose entries are not those that it signed", async () => {
  const rows = await played.playBehind(
    async (request, pass) => {
      const response = await pass(request);
      if (!request.url.includes("/tile/entries/")) return response;
      const octets = await response.bytes();
      return new Response(octets.with(-1, (octets.at(-1) ?? 0) ^ 1));
    },
    [],
    asReader,
  );
  expect(rows.get("log-after")).toMatchObject({ verdict: "broken" });
});
