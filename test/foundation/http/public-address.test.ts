import { BlockList, isIPv6 } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isPublicAddress } from "../../../src/foundation/http/public-address.ts";
import { describePublicAddresses } from "../../contract/public-address.ts";

describePublicAddresses();

/** Node's own list of the same networks, as an independent oracle. */
const ipv4 = new BlockList();
for (const network of [
  "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24",
  "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24",
  "224.0.0.0/4 240.0.0.0/4",
].flatMap((line) => line.split(" "))) {
  const [address = "", length] = network.split("/");
  ipv4.addSubnet(address, Number(length), "ipv4");
}
const globalIpv6 = new BlockList();
globalIpv6.addSubnet("2000::", 3, "ipv6");
const specialIpv6 = new BlockList();
for (const [address, length] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["3fff::", 20],
] as const) {
  specialIpv6.addSubnet(address, length, "ipv6");
}

/** Near the borders of every network as often as anywhere. */
const octet = fc.oneof(
  fc.integer({ min: 0, max: 255 }),
  fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 198, 203),
);
const ipv4Address = fc.tuple(octet, octet, octet, octet).map((octets) => octets.join("."));

test("every IPv4 address is judged as by Node's list", () => {
  fc.assert(
    fc.property(ipv4Address, (address) => {
      expect(isPublicAddress(address)).toBe(!ipv4.check(address, "ipv4"));
    }),
    { numRuns: 2000 },
  );
});

test.each(["::ffff:", "64:ff9b::"])("every IPv4 address after %s is judged by itself", (prefix) => {
  fc.assert(
    fc.property(ipv4Address, (address) => {
      expect(isPublicAddress(`${prefix}${address}`)).toBe(!ipv4.check(address, "ipv4"));
    }),
    { numRuns: 1000 },
  );
});

test("every IPv6 address that embeds no other is judged as by Node's lists", () => {
  const group = fc.oneof(
    fc.integer({ min: 0, max: 0xffff }),
    fc.constantFrom(0, 0x2001, 0xdb8, 0x1ff, 0x200, 0x3fff, 0x0fff, 0x1000, 0xfd00, 0xfe80),
  );
  const address = fc
    .array(group, { minLength: 8, maxLength: 8 })
    .map((groups) => groups.map((each) => each.toString(16)).join(":"))
    .filter((text) => isIPv6(text) && !/^(?:2002|64:ff9b|0:0:0:0:0:ffff):/.test(text));
  fc.assert(
    fc.property(address, (text) => {
      const isPublic = globalIpv6.check(text, "ipv6") && !specialIpv6.check(text, "ipv6");
      expect(isPublicAddress(text)).toBe(isPublic);
    }),
    { numRuns: 2000 },
  );
});
