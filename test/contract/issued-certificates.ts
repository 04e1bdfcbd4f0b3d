import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type IssuedCertificates, idempotentOver } from "../../src/ca/issuance/idempotency.ts";
import { nodeCryptoProvider } from "../../src/node/node-crypto-provider.ts";
import type { Bytes } from "../../src/pki/encoding/bytes.ts";
import { issueFor } from "../testkit/ca/issue-for-signer.ts";
import { startCa } from "../testkit/ca/running-ca.ts";
import { createWorkload } from "../testkit/callers/workload.ts";

/** A place of issued certificates, and what a test does beside it. */
interface IssuedPlace {
  /** The certificates as another process opens them. */
  readonly open: (maximum?: number) => IssuedCertificates;
  /** The names of all that are there. */
  readonly names: () => Promise<readonly string[]>;
  /** Sets the clock of the place, in seconds, or says that a certificate was written at that time. */
  readonly at: (second: number, written?: string) => Promise<void>;
}

const der = (octet: number): Bytes => new Uint8Array([octet]);
const start = 1_800_000_000;

/** Tests the port `IssuedCertificates` in a place that is empty. */
export function describeIssued(place: () => Promise<IssuedPlace>): void {
  describe("certificates by their requests", () => {
    test("are the first of several, for every process and after a restart", async () => {
      const { open, names } = await place();
      const [one, two] = [open(), open()];
      expect(await one.read("a/1")).toBeUndefined();
      const racing = [one, two, one, two].map((each, i) => each.create("a/1", der(i)));
      const kept = await Promise.all(racing);
      expect(new Set(kept.map((each) => each?.[0])).size).toBe(1);
      expect(await open().read("a/1")).toEqual(kept[0]);
      expect(await names()).toEqual(["a/1"]);
    });

    test("give way to the next of who has read them, and of nobody else", async () => {
      const { open } = await place();
      const [one, two] = [open(), open()];
      await one.create("a/1", der(1));
      expect(await two.create("a/1", der(2), der(1))).toEqual(der(2));
      expect(await one.create("a/1", der(3), der(1))).toEqual(der(2));
      expect(await one.create("a/2", der(4), der(1))).toEqual(der(4));
    });

    test("go when they are an hour old, or too many of one issuer, the oldest first", async () => {
      const { open, names, at } = await place();
      const writeAt = async (second: number, name: string, stale?: Bytes): Promise<void> => {
        await at(start + second);
        await open(3).create(name, der(second % 256), stale);
        await at(start + second, name);
      };
      await writeAt(0, "b/0");
      for (const each of [0, 1, 2, 3]) await writeAt(100 * each, `a/${each}`);
      // Written anew, so no longer the oldest.
      await writeAt(400, "a/1", der(100));
      await writeAt(500, "a/5");
      expect((await names()).toSorted()).toEqual(["a/1", "a/3", "a/5", "b/0"]);
      await writeAt(4050, "a/6");
      expect((await names()).toSorted()).toEqual(["a/5", "a/6", "b/0"]);
      await writeAt(4060, "b/1");
      expect((await names()).toSorted()).toEqual(["a/5", "a/6", "b/1"]);
    });

    test("are one for a request that races to two replicas", async () => {
      const { open } = await place();
      const ca = await startCa();
      await ca.found();
      const { certificateAuthority } = ca;
      const verification = { isRevoked: async () => false, cryptoProvider: nodeCryptoProvider };
      const replicas = [open(), open()].map((stored) => {
        const idempotency = idempotentOver(stored)(verification);
        const issuance = { ...certificateAuthority.issuance, idempotency };
        return { ...ca, certificateAuthority: { ...certificateAuthority, issuance } };
      });
      const { csrPem } = await createWorkload();
      const metadata = { ImpersonatedIdentity: "spiffe://cluster.local/ns/foo/sa/bar" };
      const ask = async (by: (typeof replicas)[number]): Promise<string> => {
        const [leafPem = ""] = await issueFor(by, { csrPem, metadata, request: "uid-1" });
        return new X509Certificate(leafPem).serialNumber;
      };
      const serials = await Promise.all([...replicas, ...replicas].map(ask));
      expect(new Set(serials).size).toBe(1);
    });
  });
}
