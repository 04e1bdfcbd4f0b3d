import { X509Certificate } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { createServiceRoot } from "../../../src/custody/key-service/operators-keys.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { awsRootUris, playAws } from "../../testkit/key-services/aws-kms.ts";
import { playedCustody } from "../../testkit/key-services/played-custody.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";

const day = 86_400;
const start = new Date("2026-11-21T12:00:00Z");
const later = (days: number): Date => addSeconds(start, days * day);
const csr = Pem.parse((await createWorkload()).csrPem, ["CERTIFICATE REQUEST"]) ?? new Uint8Array();

describe("a root in a key service", () => {
  let now: Date;
  let custody: PlatformKeys;

  beforeEach(async () => {
    const service = await playAws();
    now = start;
    custody = playedCustody(service, undefined, () => now);
  });

  const keyOf = () => custody.keyServices(`${awsRootUris[0]}`);
  const rootFor = (days: number, trustDomain = clusterLocal, at = start): Promise<Bytes> =>
    createServiceRoot(keyOf(), trustDomain, days * day, at);
  const certify = (root: Bytes, days: number, knownRoots: readonly Bytes[] = []) =>
    custody.certifyBelow(
      {
        keys: [keyOf()],
        certificates: [root],
        trustDomain: clusterLocal,
        clock: () => now,
      },
      { csr, lifetimeSeconds: days * day, knownRoots },
    );

  test("signs nothing that outlives it, and nothing once it has expired", async () => {
    const root = await rootFor(10);
    const end = new X509Certificate(root).validTo;
    now = later(5);
    const { chain } = await certify(root, 8);
    const { validTo, validFromDate } = new X509Certificate(chain[0] ?? root);
    expect(validTo).toBe(end);
    expect(validFromDate).toEqual(addSeconds(now, -120));
    now = later(10);
    await expect(certify(root, 8)).rejects.toThrow("has a root that has expired");
  });

  test("is renewed under its own name alone: another one's is renewed by whoever chose it", async () => {
    const [own, foreign] = [await rootFor(30), await rootFor(30, "other.test" as TrustDomain)];
    now = later(20);
    expect((await certify(own, 8)).roots).not.toEqual([own]);
    expect((await certify(foreign, 8)).roots).toEqual([foreign]);
  });

  test("is read from the store only where a certificate there has its key and its valid signature", async () => {
    const root = await rootFor(365);
    now = later(1);
    const renewed = await rootFor(365, clusterLocal, now);
    const forged = renewed.with(-1, (renewed.at(-1) ?? 0) ^ 1);
    const { chain } = await certify(root, 8);
    for (const known of [[forged], chain]) {
      expect((await certify(root, 8, known)).roots).toEqual([root]);
    }
    expect((await certify(root, 8, [renewed])).roots).toEqual([renewed]);
  });

  test("is what it was renewed to last, in whatever order the certificates are", async () => {
    const roots = [0, 10, 20].map((days) => rootFor(365, clusterLocal, later(days)));
    const [root, second, third] = (await Promise.all(roots)) as [Bytes, Bytes, Bytes];
    now = later(30);
    for (const known of [
      [root, second, third],
      [third, second, root],
    ])
      expect((await certify(root, 8, known)).roots).toEqual([third]);
  });
});
