import { BlockList, isIPv6 } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Host } from "../../src/foundation/addresses.ts";
import { CallerAddress } from "../../src/foundation/shares.ts";
import { SocketAddress } from "../../src/foundation/socket-address.ts";
import { describePublicAddresses } from "../contract/public-address.ts";
import noAddresses from "../vectors/no-listen-address.json" with { type: "json" };

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
      expect(Host.isPublicAddress(address)).toBe(!ipv4.check(address, "ipv4"));
    }),
    { numRuns: 2000 },
  );
});

test.each(["::ffff:", "64:ff9b::"])("every IPv4 address after %s is judged by itself", (prefix) => {
  fc.assert(
    fc.property(ipv4Address, (address) => {
      expect(Host.isPublicAddress(`${prefix}${address}`)).toBe(!ipv4.check(address, "ipv4"));
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
      expect(Host.isPublicAddress(text)).toBe(isPublic);
    }),
    { numRuns: 2000 },
  );
});

test.each<[string | undefined, string]>([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:2::6", "2001:db8:1:2::/64"],
  ["2001:db8::6", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  [undefined, ""],
])("counts %s as %s", (address, counted) => {
  expect(CallerAddress.of(address)).toBe(counted);
});

test.each([
  ["192.0.2.1", "192.0.2.0/24"],
  ["::ffff:192.0.2.1", "192.0.2.0/24"],
  ["2001:db8:1:2::3", "2001:db8:1::/48"],
  ["2001:db8::3", "2001:db8:0::/48"],
  ["::1", "0:0:0::/48"],
  ["fe80::1%eth0", "fe80:0:0::/48"],
])("the network of %s is %s", (address, network) => {
  expect(CallerAddress.networkOf(CallerAddress.of(address))).toBe(network);
});

test.each(["", "a", "192.0.2", "2001:db8::/48"])("%j has no network but itself", (address) => {
  expect(CallerAddress.networkOf(address)).toBe(address);
});

test.each([
  ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
  ["CA.test:65535", { host: "CA.test", port: 65_535 }],
  ["[::1]:443", { host: "::1", port: 443 }],
  ["[::ffff:10.0.0.1]:443", { host: "::ffff:10.0.0.1", port: 443 }],
])("reads %s, to connect to and to listen on", (text, address) => {
  expect(SocketAddress.parse(text)).toEqual(address);
  expect(SocketAddress.parseListening(text)).toEqual(address);
});

test.each([
  ["::1", "[::1]"],
  ["127.0.0.1", "127.0.0.1"],
  ["ca.test", "ca.test"],
])("writes %s before a port as %s", (host, text) => {
  expect(Host.bracketed(host)).toBe(text);
  expect(SocketAddress.parse(`${text}:443`)).toEqual({ host, port: 443 });
});

test("reads an address without a host only to listen on", () => {
  expect(SocketAddress.parseListening(":15012")).toEqual({ port: 15_012 });
  expect(SocketAddress.parse(":15012")).toBeUndefined();
});

test.each(noAddresses)("refuses %j", (text) => {
  expect(SocketAddress.parse(text)).toBeUndefined();
  expect(SocketAddress.parseListening(text)).toBeUndefined();
});

test("callers behind one gateway are of one network, and those behind another of another", () => {
  const networkOf = (gateway: string, caller: string) =>
    CallerAddress.networkOf(CallerAddress.behind(gateway, caller));
  expect(networkOf("a", "192.0.2.1")).toBe(networkOf("a", "198.51.100.1"));
  expect(networkOf("a", "192.0.2.1")).not.toBe(networkOf("b", "192.0.2.1"));
  expect(CallerAddress.isBehindGateway(networkOf("a", "192.0.2.1"))).toBe(true);
});
