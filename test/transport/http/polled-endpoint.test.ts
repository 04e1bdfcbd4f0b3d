import { expect, test } from "vitest";
import { SharedOctets } from "../../../src/transport/http/shared-octets.ts";

test("all callers share one buffer, of which an answer is a part", async () => {
  const octets = crypto.getRandomValues(new Uint8Array(60_000));
  const large = new Uint8Array([...octets, ...octets, ...octets]);
  const chunks: Uint8Array[] = [];
  for await (const chunk of SharedOctets.share(large, {}).body ?? []) chunks.push(chunk);
  expect(new Set(chunks.map(({ buffer }) => buffer))).toEqual(new Set([large.buffer]));
  expect(Buffer.concat(chunks).equals(large)).toBe(true);
});

test.each([0, 1, 5000])(
  "an answer of %i octets is whole, and knows what it shares",
  async (length) => {
    const octets = new Uint8Array(length).fill(7);
    const answer = SharedOctets.share(octets, { status: 200, headers: { etag: "a" } });
    expect(SharedOctets.of(answer)).toBe(octets);
    expect(answer.headers.get("etag")).toBe("a");
    expect(new Uint8Array(await answer.arrayBuffer())).toEqual(octets);
  },
);
