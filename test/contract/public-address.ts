import { describe, expect, test } from "vitest";
import { Host } from "../../src/foundation/addresses.ts";

const publicAddresses: readonly string[] = [
  "1.1.1.1",
  "8.8.8.8",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "128.0.0.0",
  "169.253.255.255",
  "169.255.0.0",
  "172.15.255.255",
  "172.32.0.0",
  "192.0.1.0",
  "192.167.255.255",
  "192.169.0.0",
  "198.17.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "2000::1",
  "2001:200::1",
  "2001:4860:4860::8888",
  "2606:4700:4700::1111",
  "2a00::1",
  "3ffe::1",
  "3fff:1000::1",
  "::ffff:8.8.8.8",
  "64:ff9b::808:808",
  "64:ff9b::8.8.8.8",
  "2002:808:808::1",
];

const otherTexts: readonly string[] = [
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.0",
  "10.255.255.255",
  "100.64.0.0",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "169.254.0.0",
  "169.254.169.254",
  "172.16.0.0",
  "172.31.255.255",
  "192.0.0.1",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.0",
  "192.168.255.255",
  "198.18.0.0",
  "198.19.255.255",
  "198.51.100.1",
  "203.0.113.1",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.0",
  "255.255.255.255",
  "::",
  "::1",
  "::7f00:1",
  "::ffff:127.0.0.1",
  "::ffff:10.1.2.3",
  "::ffff:a00:1",
  "::ffff:169.254.169.254",
  "0:0:0:0:0:ffff:c0a8:1",
  "::ffff:0:10.0.0.1",
  "64:ff9b::10.0.0.1",
  "64:ff9b::7f00:1",
  "64:ff9b:1::808:808",
  "100::1",
  "2001::1",
  "2001:1ff::1",
  "2001:db8::1",
  "2002:a00:1::1",
  "2002:7f00:1::",
  "3fff::1",
  "4000::1",
  "5f00::1",
  "fc00::1",
  "fd12:3456::1",
  "fe80::1",
  "fe80::1%eth0",
  "febf::1",
  "fec0::1",
  "ff02::1",
  "",
  "localhost",
  "8.8.8.8.8",
  "8.8.8.8:80",
  "[8.8.8.8]",
  "2001:4860::8888::1",
];

/** Which addresses and hosts are public, alike on every platform. */
export function describePublicAddresses(): void {
  describe("an address", () => {
    test.each(publicAddresses)("%s is public", (address) => {
      expect(Host.isPublicAddress(address)).toBe(true);
    });

    test.each(otherTexts)("«%s» is not public", (address) => {
      expect(Host.isPublicAddress(address)).toBe(false);
    });
  });

  describe("the host of a URL", () => {
    test.each([
      "https://a.test",
      "https://oidc.eks.eu-west-1.amazonaws.com/id/1",
      "https://local.example.com",
      "https://svc.example.com",
      "https://internal.example.com.",
      "https://8.8.8.8",
      "https://[2606:4700::1111]",
      "https://10.example.com",
    ])("%s is public", (url) => {
      expect(Host.isPublic(new URL(url).hostname)).toBe(true);
    });

    test.each([
      "https://localhost",
      "https://LOCALHOST.",
      "https://a.localhost",
      "https://host",
      "https://kubernetes.default.svc",
      "https://kubernetes.default.svc.cluster.local",
      "https://kubernetes.default.svc.mesh.example",
      "https://metadata.google.internal",
      "https://printer.local",
      "https://router.lan",
      "https://nas.home.arpa",
      "https://127.1",
      "https://0177.0.0.1",
      "https://0x0a000001",
      "https://167772161",
      "https://10.0.0.1.",
      "https://[::ffff:10.0.0.1]",
      "https://[::]",
    ])("%s is not public", (url) => {
      expect(Host.isPublic(new URL(url).hostname)).toBe(false);
    });
  });
}
