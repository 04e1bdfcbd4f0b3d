import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CaError } from "../../src/foundation/errors.ts";
import { WorkSharing } from "../../src/foundation/shared-work.ts";
import { Base64 } from "../../src/pki/encoding/base64.ts";
import { Hex } from "../../src/pki/encoding/bytes.ts";
import { derElement, derSequence } from "../../src/pki/encoding/internal/der-writer.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { CertificateSigningRequest } from "../../src/pki/x509/certificate-signing-request.ts";
import { describeSharedWork } from "../contract/bounds/shared-work.ts";
import { describeOpenedKeys } from "../contract/opened-keys.ts";
import { describePublicAddresses } from "../contract/public-address.ts";
import { apiCredentialName } from "../contract/service-under-test.ts";
import { derBitString } from "../testkit/der/writing.ts";
import { createTurnClock } from "../testkit/time/turn-clock.ts";

const symbols = fc
  .array(fc.constantFrom(..."ABQgwz09+/-_= \t\f\v\r\n\u{a0}\u{141}"), { maxLength: 12 })
  .map((letters) => letters.join(""));

test("the platform decodes base64 in lines exactly as our own decoder does on one line", () => {
  fc.assert(
    fc.property(symbols, (text) => {
      expect(Base64.parseLines(text)).toEqual(Base64.parse(text.replace(/[\r\n]/g, "")));
    }),
    { numRuns: 5000 },
  );
});

test("the platform writes any octets, and reads them back", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (octets) => {
      expect(Base64.format(octets)).toBe(btoa(String.fromCharCode(...octets)));
      const lines = btoa(String.fromCharCode(...octets)).replace(/.{64}/g, "$&\r\n");
      expect(Base64.parseLines(lines)).toEqual(octets);
    }),
  );
});

test("the platform decodes base64url into a given array as into a new one, and only in canonical form", () => {
  fc.assert(
    fc.property(symbols, fc.constantFrom(0, 4, 64), (text, room) => {
      const octets = Base64.parseUrl(text, new Uint8Array(room));
      expect(octets).toEqual(Base64.parseUrl(text));
      if (octets) expect(urlOf(octets)).toBe(text);
    }),
    { numRuns: 5000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (octets) => {
      expect(Base64.parseUrl(urlOf(octets), new Uint8Array(1024))).toEqual(octets);
    }),
  );
});

function urlOf(octets: Uint8Array): string {
  const standard = btoa(String.fromCharCode(...octets));
  return standard.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const identifier = Hex.parseLiteral("300506032b6570");

/** A CSR of these octets, valid or not. */
function csrOf(key: Uint8Array, signature: Uint8Array): string {
  const spki = derSequence(identifier, derBitString(key));
  const info = derSequence(
    Hex.parseLiteral("020100"),
    Hex.parseLiteral("3000"),
    spki,
    derElement(0xa0),
  );
  return Pem.format("CERTIFICATE REQUEST", derSequence(info, identifier, derBitString(signature)));
}

async function reasonOf(csrPem: string): Promise<string> {
  const error: unknown = await CertificateSigningRequest.parse(csrPem, webCryptoProvider).then(
    () => new Error("accepted"),
    (reason: unknown) => reason,
  );
  return error instanceof CaError ? error.refusal.reason : String(error);
}

async function publicKey(): Promise<Uint8Array> {
  const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const { publicKey } = pair as CryptoKeyPair;
  return new Uint8Array((await crypto.subtle.exportKey("raw", publicKey)) as ArrayBuffer);
}

test.each([0, 63, 64, 65, 71, 1024])(
  "refuses an Ed25519 signature of %i octets as invalid, not as a fault",
  async (octets) => {
    const csrPem = csrOf(await publicKey(), new Uint8Array(octets));
    expect(await reasonOf(csrPem)).toBe("csr-signature-invalid");
  },
);

test("refuses a key of small order, for which anybody can sign", async () => {
  const identity = Hex.parseLiteral(`01${"00".repeat(31)}`);
  const signature = new Uint8Array(64);
  signature.set(identity);
  expect(await reasonOf(csrOf(identity, signature))).toBe("subject-key-unacceptable");
});

describeOpenedKeys(webCryptoProvider, 1);

describePublicAddresses();

describeSharedWork(WorkSharing.polling(createTurnClock()));

test("the Worker under test has the settings of vitest.config.ts, and none of a file of the checkout", () => {
  const ours = Object.keys(env).filter((name) => !name.startsWith("__VITEST"));
  const bindings = ["AUTHORITIES", "CALLER_QUOTA", "ISSUER_QUOTA", "CALL_COUNTS"];
  const log = ["LOG_BUCKET", "LOG_SHARD"];
  const values = ["INCEPTION_DATE", "ISSUERS", "KEK", "PROPAGATION_INTERVAL", "TRUST_DOMAIN"];
  expect(ours.toSorted()).toEqual([...bindings, ...log, ...values, apiCredentialName].toSorted());
});
