import { expect } from "vitest";

/**
 * Requires that one address gets no more than its part of the places for long polls.
 *
 * @param send Asks for `/bundle.json` from an address.
 */
export async function requireFairPlaces(
  send: (address: string, headers: Record<string, string>) => Promise<Response>,
): Promise<void> {
  const first = await send("192.0.2.1", {});
  await first.text();
  const headers = { prefer: "wait=1", "if-none-match": first.headers.get("etag") ?? "" };
  const waits = async (address: string): Promise<boolean> => {
    const response = await send(address, headers);
    await response.text();
    expect(response.status).toBe(304);
    return response.headers.has("preference-applied");
  };
  const flood = Array.from({ length: 600 }, () => waits("192.0.2.1"));
  // Addresses of one host's /64 count as one.
  const others = ["198.51.100.1", "2001:db8::1", "2001:db8::2"].map(waits);
  expect((await Promise.all(flood)).filter(Boolean)).toHaveLength(500);
  expect(await Promise.all(others)).toEqual([true, true, true]);
}
