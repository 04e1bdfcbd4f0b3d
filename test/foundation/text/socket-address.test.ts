import { expect, test } from "vitest";
import {
  bracketed,
  parseListenAddress,
  parseSocketAddress,
} from "../../../src/foundation/text/socket-address.ts";

test.each([
  ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
  ["CA.test:65535", { host: "CA.test", port: 65_535 }],
  ["[::1]:443", { host: "::1", port: 443 }],
  ["[::ffff:10.0.0.1]:443", { host: "::ffff:10.0.0.1", port: 443 }],
])("reads %s, to connect to and to listen on", (text, address) => {
  expect(parseSocketAddress(text)).toEqual(address);
  expect(parseListenAddress(text)).toEqual(address);
});

test.each([
  ["::1", "[::1]"],
  ["127.0.0.1", "127.0.0.1"],
  ["ca.test", "ca.test"],
])("writes %s before a port as %s", (host, text) => {
  expect(bracketed(host)).toBe(text);
  expect(parseSocketAddress(`${text}:443`)).toEqual({ host, port: 443 });
});

test("reads an address without a host only to listen on", () => {
  expect(parseListenAddress(":15012")).toEqual({ port: 15_012 });
  expect(parseSocketAddress(":15012")).toBeUndefined();
});

test.each([
  "",
  "15012",
  "ca.test",
  "ca.test:",
  "ca.test:65536",
  "ca.test:100000",
  "ca.test:0443",
  "ca.test:+1",
  "::1:443",
  "[::1]",
  "[::1:443",
  "::1]:443",
  "[]:443",
  "[ca.test]:443",
  "two words:443",
  "a_b:443",
  "user@ca.test:443",
  "https://ca.test:443",
  "ca.test:443/",
  "ca.test:443\n",
])("refuses %j", (text) => {
  expect(parseSocketAddress(text)).toBeUndefined();
  expect(parseListenAddress(text)).toBeUndefined();
});
