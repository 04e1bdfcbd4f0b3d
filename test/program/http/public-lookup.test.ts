import type { LookupAddress } from "node:dns";
import { describe, expect, test } from "vitest";
import { createJsonFetch } from "../../../src/foundation/fetch.ts";
import { createPublicLookup } from "../../../src/program/http/http-client.ts";
import { fetchTrusting } from "../../../src/program/http/node-fetch.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const ip = (address: string): LookupAddress => ({ address, family: address.includes(":") ? 6 : 4 });

/** The addresses that a socket would connect to, or the code of the failure. */
function lookUp(addresses: readonly LookupAddress[], all: boolean, code?: string) {
  const error = code ? Object.assign(new Error("no answer"), { code }) : null;
  const lookup = createPublicLookup((_, __, callback) => callback(error, [...addresses]));
  return new Promise((resolve) =>
    lookup("a.test", { all }, (failure, found, family) =>
      resolve(failure ? failure.code : [found, family]),
    ),
  );
}

describe("a public lookup", () => {
  test("gives what is public, and leaves out what is not", async () => {
    const [good, six] = [ip("8.8.8.8"), ip("2606:4700::1111")];
    const mixed = [ip("127.0.0.1"), good, ip("fd00::1"), six];
    expect(await lookUp(mixed, true)).toEqual([[good, six], undefined]);
    expect(await lookUp(mixed, false)).toEqual(["8.8.8.8", 4]);
  });

  test.each([
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "100.64.0.1",
    "::1",
    "fe80::1",
    "fd00::1",
  ])("fails for a name that is %s alone", async (address) => {
    for (const all of [true, false]) {
      expect(await lookUp([ip(address)], all)).toBe("PRIVATE_ADDRESS");
    }
  });

  test.each(["::ffff:127.0.0.1", "64:ff9b::7f00:1"])("fails for %s", async (address) => {
    expect(await lookUp([ip(address)], true)).toBe("PRIVATE_ADDRESS");
  });

  test("fails for a name without addresses, and as DNS fails", async () => {
    expect(await lookUp([], true)).toBe("PRIVATE_ADDRESS");
    expect(await lookUp([], true, "ENOTFOUND")).toBe("ENOTFOUND");
  });
});

describe("a request that may go to public addresses alone", () => {
  const fetchPublic = createJsonFetch(fetchTrusting(undefined, "public"), hangMilliseconds);

  test.each(["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1"])(
    "does not connect to %s, where a server listens",
    async (host) => {
      const server = await startLoopbackServer((_, response) => response.end("{}"));
      const { port } = new URL(server.origin);
      const url = `http://${host}:${port}/`;
      await expect(fetchPublic(url)).rejects.toThrow("did not answer (PRIVATE_ADDRESS)");
      expect(server.requests).toEqual([]);
      const fetchAnywhere = createJsonFetch(fetchTrusting(undefined), hangMilliseconds);
      expect(await fetchAnywhere(`${server.origin}/`)).toEqual({});
    },
  );
});
