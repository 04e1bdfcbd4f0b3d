import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { importExtractable, readPrivateKey } from "../../../../src/cli/verbs/import/pem-files.ts";
import { SubjectPublicKey } from "../../../../src/pki/x509/subject-public-key.ts";
import { operatorErrorOf } from "../../../testkit/pki/plugged-in.ts";

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-384" });
const ed25519 = generateKeyPairSync("ed25519");

const source = (text: string) => ({ name: "ca-key.pem", text });
const pkcs8 = (keys: typeof rsa) =>
  keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const pkcs1 = rsa.privateKey.export({ type: "pkcs1", format: "pem" }).toString();
const sec1 = ec.privateKey.export({ type: "sec1", format: "pem" }).toString();
const curve = "-----BEGIN EC PARAMETERS-----\nBgUrgQQAIg==\n-----END EC PARAMETERS-----\n";

test.for([
  ["PKCS#1", pkcs1, rsa],
  ["PKCS#8 of RSA", pkcs8(rsa), rsa],
  ["SEC1", sec1, ec],
  ["SEC1 after its curve, as openssl ecparam writes it", `${curve}${sec1}`, ec],
  ["PKCS#8 of an elliptic curve", pkcs8(ec), ec],
  ["PKCS#8 of Ed25519", pkcs8(ed25519), ed25519],
  ["text around the block", `subject=CN=x\n${sec1}\nEnd of file.\n`, ec],
  ["CRLF", sec1.replaceAll("\n", "\r\n"), ec],
] as const)("reads %s", async ([, text, keys]) => {
  const key = readPrivateKey(source(text));
  expect(key.equals(keys.privateKey)).toBe(true);
  const spki = new Uint8Array(keys.publicKey.export({ type: "spki", format: "der" }));
  const imported = await importExtractable(key, SubjectPublicKey.parse(spki), source(""));
  const exported = Buffer.from(await crypto.subtle.exportKey("pkcs8", imported));
  expect(exported).toEqual(keys.privateKey.export({ type: "pkcs8", format: "der" }));
});

const passphrase = { cipher: "aes-256-cbc", passphrase: "hunter2" };
const encryptedPkcs8 = ec.privateKey.export({ type: "pkcs8", format: "pem", ...passphrase });
const encryptedPkcs1 = rsa.privateKey.export({ type: "pkcs1", format: "pem", ...passphrase });
const publicKey = ec.publicKey.export({ type: "spki", format: "pem" }).toString();
const [bodyOfSec1 = ""] = /(?<=\n)[A-Za-z0-9+/=\n]+(?=-----END)/.exec(sec1) ?? [];

test.for([
  ["nothing", " ", "there is no PEM block"],
  ["an encrypted PKCS#8 key", encryptedPkcs8.toString(), "the key is encrypted"],
  ["an encrypted PKCS#1 key", encryptedPkcs1.toString(), "the key is encrypted"],
  ["two keys", pkcs1 + sec1, "2 PEM blocks"],
  ["the same key twice", sec1 + sec1, "2 PEM blocks"],
  ["a public key", publicKey, "a block of PUBLIC KEY"],
  [
    "an OpenSSH key",
    sec1.replaceAll("EC PRIVATE", "OPENSSH PRIVATE"),
    "a block of OPENSSH PRIVATE KEY",
  ],
  [
    "a public key with a private label",
    publicKey.replaceAll("PUBLIC", "PRIVATE"),
    "is not a valid",
  ],
  ["a block without an end", sec1.replace(/-----END.*/, ""), "no proper end"],
  ["a block in a block", sec1.replace("\n", `\n${sec1}`), "no proper end"],
  ["an end of another label", sec1.replace("END EC", "END RSA"), "no proper end"],
  ["half a key", sec1.replace(bodyOfSec1, bodyOfSec1.slice(0, 65)), "is not a valid EC"],
  ["what is not base64", sec1.replace(bodyOfSec1, bodyOfSec1.replace("A", "#")), "not base64"],
] as const)("refuses %s, and shows nothing of it", async ([, text, why]) => {
  const lines = await operatorErrorOf(() => readPrivateKey(source(text)));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^ca-key\.pem: /);
  expect(lines[0]).toContain(why);
  for (const line of bodyOfSec1.trim().split("\n")) expect(lines[0]).not.toContain(line);
});
