import { describe, expect, test } from "vitest";
import { Host } from "../../src/foundation/addresses.ts";
import vectors from "../vectors/public-address.json" with { type: "json" };

/** Which addresses and hosts are public, alike on every platform. */
export function describePublicAddresses(): void {
  describe("an address", () => {
    test.each(vectors.publicAddresses)("%s is public", (address) => {
      expect(Host.isPublicAddress(address)).toBe(true);
    });

    test.each(vectors.otherTexts)("«%s» is not public", (address) => {
      expect(Host.isPublicAddress(address)).toBe(false);
    });
  });

  describe("the host of a URL", () => {
    test.each(vectors.publicUrls)("%s is public", (url) => {
      expect(Host.isPublic(new URL(url).hostname)).toBe(true);
    });

    test.each(vectors.otherUrls)("%s is not public", (url) => {
      expect(Host.isPublic(new URL(url).hostname)).toBe(false);
    });
  });
}
