import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { beforeEach, expect, test } from "vitest";
import { kekCommand } from "../../../src/cli/verbs/kek.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { awsCredential, awsFault, awsKeyId, playAws } from "../../testkit/key-services/aws-kms.ts";
import type { PlayedService } from "../../testkit/key-services/key-service.ts";
import { listenAs } from "../../testkit/key-services/listening-kek.ts";
import type { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { Operator } from "../operator.ts";

let service: PlayedService;
let uri: string;
let operator: Operator;
let terminal: MemoryTerminal;

const kek = (...words: readonly string[]) => operator.run(kekCommand, words);
const authority = (...words: readonly string[]) => operator.authority(...words);

beforeEach(async () => {
  service = await playAws();
  uri = `awskms://${await listenAs(service)}/${awsKeyId}`;
  operator = await Operator.create(new Date());
  ({ terminal } = operator);
  const [id = "", secret = ""] = awsCredential.split(":");
  terminal.setVariable("AWS_ACCESS_KEY_ID", id);
  terminal.setVariable("AWS_SECRET_ACCESS_KEY", secret);
});

test("a new CA gets a KEK that nobody has seen, and its verbs open it with the operator's keys", async () => {
  const wrapped = (await kek("wrap", "k1", uri)).trim();
  expect(wrapped).toMatch(/^k1:awskms:\/\/127\.0\.0\.1:\d+\/arn:\S+#\S+\.\S{43}$/);
  terminal.setVariable("KEK", wrapped);
  await authority("init", "--yes");
  expect(await kek("list")).toMatch(/^k1 +yes +1$/m);
  expect(terminal.printed + terminal.said).not.toContain("secret/of");
});

test("a KEK is wrapped as it is, by each of several keys, and unwrapped", async () => {
  const plain = (await terminal.run(kekCommand, ["new", "k1"])).trim();
  for (const place of ["Worker", "rampart serve", "AWS Lambda"])
    expect(terminal.said).toContain(place);
  terminal.setVariable("KEK", plain);
  await authority("init", "--yes");
  const wrapped = (await kek("wrap", "k1", uri, uri)).trim().split(",");
  expect(wrapped).toHaveLength(2);
  for (const entry of wrapped) {
    terminal.setVariable("KEK", entry);
    expect(await kek("list")).toMatch(/^k1 +yes +1$/m);
    expect((await kek("unwrap", "k1")).trim()).toBe(plain);
  }
  await expect(kek("unwrap", "k2")).rejects.toThrow("KEK has no k2 that a key service opens");
});

test("a KEK is retired once no record needs it, and no sooner", async () => {
  const [old, next, third] = ["old", "next", "third"].map(randomKek);
  const retire = (id: string) => kek("list", "--retire", id);
  terminal.setVariable("KEK", `${old},${next}`);
  await authority("init", "--yes");
  await expect(retire("old")).rejects.toThrow("old is the KEK that seals new records");
  terminal.setVariable("KEK", `${next},${old},${third}`);
  await expect(retire("old")).rejects.toMatchObject({
    message: expect.stringMatching(/^old still seals records \(1\): /),
    exitCode: 3,
  });
  await expect(retire("none")).rejects.toThrow("no KEK none is configured");
  expect(await retire("third")).toMatch(/^third +yes +0$/m);
  await writeFile(operator.file(`store/authorities/${"ab".repeat(20)}.json`), "{}");
  await expect(retire("third")).rejects.toThrow("records that do not open: 1");
});

test("a root is made for a key that signs, and for no other", async () => {
  const key = uri.replace("1234abcd", "00000001");
  const pem = await authority("root", key, "--lifetime", "8760h");
  const root = new X509Certificate(pem);
  expect([root.ca, root.subject, root.verify(root.publicKey)]).toEqual([
    true,
    "O=cluster.local",
    true,
  ]);
  expect(root.validToDate.getTime() - Date.now()).toBeLessThan(8760 * 3_600_000);
  for (const lifetime of ["23h", "351361h"])
    await expect(authority("root", key, "--lifetime", lifetime)).rejects.toThrow("--lifetime must");
  service.fault = awsFault("InvalidKeyUsageException");
  await expect(authority("root", key)).rejects.toThrow("a root SIGN_VERIFY");
  service.fault = undefined;
  // Whoever may read the public key may lack the right to sign.
  service.forge = (answer) => ("Signature" in answer ? {} : answer);
  await expect(authority("root", key)).rejects.toThrow(/^awskms:\S+ answered for another key$/);
});

test("a verb says in one sentence why the KEK does not open", async () => {
  terminal.setVariable("KEK", (await kek("wrap", "k1", uri)).trim());
  service.fault = awsFault("AccessDeniedException");
  await expect(kek("list")).rejects.toThrow(
    `the KEK is not open: KEK k1: ${uri} does not let this credential: grant kms:Decrypt (status 400, AccessDeniedException)`,
  );
  await expect(kek("wrap", "k2", uri)).rejects.toThrow(/^awskms:\S+ does .*grant kms:Encrypt/);
  await expect(kek("wrap", "k2", "awskms:///mine")).rejects.toThrow(
    "must have a form that `rampart kek wrap --help` shows",
  );
});
