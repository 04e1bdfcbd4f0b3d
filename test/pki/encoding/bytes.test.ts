import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { allocateBytes, fingerprintOf } from "../../../src/pki/encoding/bytes.ts";

test.each(["", "abc", "a longer text, over one block of the hash ".repeat(4)])(
  "is what OpenSSL computes of %j",
  (text) => {
    const octets = new TextEncoder().encode(text);
    expect(fingerprintOf(octets)).toBe(createHash("sha256").update(octets).digest("hex"));
  },
);

const lengths = [0, 1, 64, 1000, 5000, 16 * 1024, 16 * 1024 + 1];

test.each(lengths)("allocates %d zeroed octets, and none of them twice", (length) => {
  const parts = Array.from({ length: 50 }, (_, i) => {
    const part = allocateBytes(length);
    expect(part.length).toBe(length);
    expect(part.every((octet) => octet === 0)).toBe(true);
    return part.fill(i + 1);
  });
  for (const [i, part] of parts.entries())
    expect(part.every((octet) => octet === i + 1)).toBe(true);
});
