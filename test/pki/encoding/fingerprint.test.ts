import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { fingerprintOf } from "../../../src/pki/encoding/fingerprint.ts";

test.each(["", "abc", "a longer text, over one block of the hash ".repeat(4)])(
  "is what OpenSSL computes of %j",
  (text) => {
    const octets = new TextEncoder().encode(text);
    expect(fingerprintOf(octets)).toBe(createHash("sha256").update(octets).digest("hex"));
  },
);
