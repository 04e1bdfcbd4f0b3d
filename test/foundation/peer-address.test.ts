import { expect, test } from "vitest";
import { addressOf, networkOf } from "../../src/foundation/peer-address.ts";

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
  expect(addressOf(address)).toBe(counted);
});

test.each([
  ["192.0.2.1", "192.0.2.0/24"],
  ["::ffff:192.0.2.1", "192.0.2.0/24"],
  ["2001:db8:1:2::3", "2001:db8:1::/48"],
  ["2001:db8::3", "2001:db8:0::/48"],
  ["::1", "0:0:0::/48"],
  ["fe80::1%eth0", "fe80:0:0::/48"],
])("the network of %s is %s", (address, network) => {
  expect(networkOf(addressOf(address))).toBe(network);
});

test.each(["", "a", "192.0.2", "2001:db8::/48"])("%j has no network but itself", (address) => {
  expect(networkOf(address)).toBe(address);
});
