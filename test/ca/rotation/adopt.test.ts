import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { adoptAuthority } from "../../../src/ca/rotation/adopt.ts";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  issueLeaf,
  openStore,
  publishedBundle,
  readiness,
  signerOf,
  taint,
} from "../../testkit/ca/tainted-ca.ts";
import { rsa2048 } from "../../testkit/callers/workload.ts";
import { createRoot } from "../../testkit/pki/foreign-root.ts";
import { createCa, generateKeys } from "../../testkit/pki/plugged-in.ts";
import { expectNothingExportable } from "../../testkit/reachable-keys.ts";

const day = 86_400;

// As istiod makes its own certificate.
const keys = await generateKeys(rsa2048);

const start = (values = {}) =>
  startCa({ PROPAGATION_INTERVAL: "600s", INCEPTION_DATE: "2020-01-01", ...values });

/** Adopts a self-signed CA that expires after these days. */
async function adopt(
  ca: RunningCa,
  days: number,
  additionalRoots: readonly Uint8Array<ArrayBuffer>[] = [],
) {
  const root = await createRoot({ keys, notAfter: addSeconds(ca.now(), days * day) });
  return { authority: await install(ca, root, { additionalRoots }), root };
}

/** Adopts this certificate, which is its own root unless others are given. */
function install(
  { mint, now }: Pick<RunningCa, "mint" | "now">,
  certificate: Bytes,
  {
    intermediates = [] as readonly Bytes[],
    roots = [certificate],
    additionalRoots = [] as readonly Bytes[],
  } = {},
) {
  const certificates = { certificate, intermediates, roots };
  const adopted = { certificates, extractablePrivateKey: keys.privateKey, additionalRoots };
  return adoptAuthority(mint, adopted, now());
}

const base64 = (der: Uint8Array): string => Buffer.from(der).toString("base64");

describe("an adopted authority", () => {
  test("signs and is published at once", async () => {
    const ca = await start();
    const { authority, root } = await adopt(ca, 3650);
    expect(await signerOf(ca)).toBe(authority.id);
    expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
    expect((await publishedBundle(ca))?.roots).toEqual([base64(root)]);
    const { leaf, chain } = await issueLeaf(ca);
    expect(leaf.verify(new X509Certificate(root).publicKey)).toBe(true);
    expect(leaf.checkIssued(new X509Certificate(root))).toBe(true);
    expect(chain).toHaveLength(2);
  });

  test("may lack the right to sign CRLs, since every verifier has its root", async () => {
    const ca = await start({ CRL: "on" });
    const { pem } = await createCa("O=elsewhere", {
      keys,
      notAfter: addSeconds(ca.now(), 120 * day),
      extensions: [
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      ],
    });
    const authority = await install(ca, new Uint8Array(new X509Certificate(pem).raw));
    expect(await signerOf(ca)).toBe(authority.id);
    await ca.rotate();
    ca.pass(600);
    // The successor may.
    const lists = await (await ca.app.request("/crl.pem")).text();
    expect(lists.match(/BEGIN X509 CRL/g)).toHaveLength(1);
    expect(ca.log.operations.map(({ event }) => event)).not.toContain("crl-fault");
    expect((await readiness(ca)).reasons).toEqual([
      `the authority ${authority.id} has no CRL: its key usage lacks cRLSign`,
    ]);
  });

  test("answers with each intermediate alone, and its root once, in the last element", async () => {
    const ca = await start();
    const notAfter = addSeconds(ca.now(), 3650 * day);
    const issuer = { name: "O=root", keys: await generateKeys() };
    const root = await createRoot({ name: "O=root", keys: issuer.keys, notAfter });
    const certificate = await createRoot({ name: "O=intermediate", keys, issuer, notAfter });
    const roots = [root];
    await install(ca, certificate, { intermediates: [certificate], roots, additionalRoots: roots });
    const { chain, leaf, ...answer } = await issueLeaf(ca);
    expect(chain).toHaveLength(3);
    const intermediate = new X509Certificate(chain[1] ?? "");
    expect(base64(intermediate.raw)).toBe(base64(certificate));
    expect(answer.roots.map(({ raw }) => base64(raw))).toEqual([base64(root)]);
    expect(leaf.verify(intermediate.publicKey)).toBe(true);
    expect(intermediate.verify(new X509Certificate(root).publicKey)).toBe(true);
    expect((await publishedBundle(ca))?.roots).toEqual([base64(root)]);
  });

  test("brings additional roots, which are published with it and from the same instant", async () => {
    const ca = await start();
    const others = [
      await createRoot({ notAfter: addSeconds(ca.now(), 1e8) }),
      await createRoot({ notAfter: addSeconds(ca.now(), 1e8) }),
    ];
    const { root } = await adopt(ca, 3650, others);
    const bundle = await publishedBundle(ca);
    expect(bundle?.roots.toSorted()).toEqual([root, ...others].map(base64).toSorted());
    expect(bundle?.sequence).toBe(Math.floor(ca.now().getTime() / 1000) * 1000);
    const { additionalRoots, authorities } = await openStore(ca.mint);
    const from = authorities[0]?.schedule.publishedFrom;
    expect(additionalRoots.map(({ schedule }) => schedule.publishedFrom)).toEqual([from, from]);
  });

  test("is sealed: nothing of its key is in the store or in the log", async () => {
    const ca = await start();
    await adopt(ca, 3650);
    const { d = "", p = "", q = "" } = await crypto.subtle.exportKey("jwk", keys.privateKey);
    const secrets = [d, p, q].map((secret) => Buffer.from(secret, "base64url"));
    const written = JSON.stringify([...ca.store.records.values(), ca.log.operations]);
    const octets = written.split(/[^A-Za-z0-9+/=]+/).map((text) => Buffer.from(text, "base64"));
    for (const secret of secrets) {
      expect(octets.some((each) => each.includes(secret.subarray(0, 16)))).toBe(false);
    }
    const { openAuthorities } = await openStore(ca.mint);
    expect(await expectNothingExportable(openAuthorities)).toHaveLength(1);
  });

  test("stops the founding of another, even on the day of inception", async () => {
    const ca = await startCa({ PROPAGATION_INTERVAL: "600s" });
    await adopt(ca, 3650);
    const before = new Map(ca.store.records);
    await foundIfEmpty(ca.mint, ca.now());
    await Rotation.rotate(ca.mint, ca.now());
    expect(ca.store.records).toEqual(before);
  });

  test("that is about to expire signs to its end, and its successor is minted in the same hour", async () => {
    const ca = await start();
    const { authority } = await adopt(ca, 120);
    await Rotation.rotate(ca.mint, ca.now());
    const successor = (await openStore(ca.mint)).authorities.find(({ id }) => id !== authority.id);
    const { longestLeafSeconds, propagationSeconds } = ca.mint.phaseLengths;
    expect(successor?.schedule.signsFrom).toEqual(
      addSeconds(
        successor?.schedule.publishedFrom ?? ca.now(),
        longestLeafSeconds + propagationSeconds,
      ),
    );
    expect(successor && successor.schedule.signsFrom < authority.schedule.signsUntil).toBe(true);
    expect(ca.log.operations.map(({ event }) => event)).not.toContain("rotation-overdue");
    expect(await signerOf(ca)).toBe(authority.id);
  });

  /** Adopts an authority below an intermediate below a root, of which each ends in so many days. */
  async function adoptBelow(ca: RunningCa, days: readonly [number, number, number]) {
    const [end, endBetween, endAbove] = days.map((each) => addSeconds(ca.now(), each * day));
    const [between, above] = [await generateKeys(), await generateKeys()];
    const issuer = { name: "O=between", keys: between };
    const over = { name: "O=root", keys: above };
    const path = await Promise.all([
      createRoot({ name: "O=authority", keys, issuer, notAfter: end ?? ca.now() }),
      createRoot({ ...issuer, issuer: over, notAfter: endBetween ?? ca.now() }),
      createRoot({ ...over, notAfter: endAbove ?? ca.now() }),
    ]);
    const [certificate, intermediate, root] = path;
    const under = { intermediates: [certificate, intermediate], roots: [root] };
    return { path, adopt: (mint = ca.mint) => install({ ...ca, mint }, certificate, under) };
  }

  test.each([
    [3, 3650, 3650],
    [3650, 3, 3650],
    [3650, 3650, 3],
  ] as const)("gives no leaf that outlives its path (%i, %i, %i days)", async (...days) => {
    const ca = await start();
    await (await adoptBelow(ca, days)).adopt();
    const { leaf } = await issueLeaf(ca, 90 * day);
    expect(Date.parse(leaf.validTo)).toBeLessThanOrEqual(ca.now().getTime() + 3 * day * 1000);
  });

  test.each([0, 1, 2])("is not stored if nobody here reads certificate %i", async (unread) => {
    const ca = await start();
    const { path, adopt } = await adoptBelow(ca, [99, 99, 99]);
    const requireReadable = (der: Uint8Array): void => {
      if (der === path[unread]) throw new DerError("OpenSSL does not read it");
    };
    const cryptoProvider = { ...ca.mint.cryptoProvider, requireReadable };
    await expect(adopt({ ...ca.mint, cryptoProvider })).rejects.toThrow("OpenSSL");
    expect(ca.store.records.size).toBe(0);
  });

  test.each([0, -400])(
    "that has expired %d days ago signs nothing and is not published",
    async (days) => {
      const ca = await start();
      await adopt(ca, days).catch(() => {});
      expect(await signerOf(ca)).toBeUndefined();
      expect(await publishedBundle(ca)).toBeUndefined();
      await expect(issueLeaf(ca)).rejects.toMatchObject({
        refusal: { reason: "no-signing-authority" },
      });
    },
  );

  test("that was tainted here before neither signs nor is published", async () => {
    const ca = await start();
    const { authority } = await adopt(ca, 3650);
    await taint(ca, "immediately");
    await ca.store.delete({ kind: "authority", id: authority.id });
    ca.pass(3600);
    await adopt(ca, 3650).catch(() => {});
    const bundle = await publishedBundle(ca);
    expect(await signerOf(ca)).not.toBe(authority.id);
    expect(bundle?.roots).toHaveLength(1);
  });

  test("is not stored with an additional root that does not parse", async () => {
    const ca = await start();
    await expect(adopt(ca, 3650, [new Uint8Array([0x30, 0])])).rejects.toBeInstanceOf(DerError);
    expect(ca.store.records.size).toBe(0);
  });

  test("is not stored when it would not open again", async () => {
    const ca = await start();
    const root = await createRoot({ keys, notAfter: addSeconds(ca.now(), 1e8) });
    const roots = [
      root,
      ...(await Promise.all(
        Array.from({ length: 8 }, () => createRoot({ notAfter: addSeconds(ca.now(), 1e8) })),
      )),
    ];
    await install(ca, root, { roots }).catch(() => {});
    expect((await openStore(ca.mint)).refusals).toEqual([]);
  });

  test("does not replace itself, because its schedule would begin again", async () => {
    const ca = await start();
    const { authority } = await adopt(ca, 3650);
    ca.pass(100 * day);
    await adopt(ca, 3650).catch(() => {});
    const { authorities } = await openStore(ca.mint);
    expect(authorities[0]?.schedule.signsUntil).toEqual(authority.schedule.signsUntil);
  });
});

test("a tainted authority whose root is an additional root as well is trusted no longer, or /readyz says so", async () => {
  const ca = await start();
  const root = await createRoot({ keys, notAfter: addSeconds(ca.now(), 3650 * day) });
  // As a combined root-cert.pem repeats it.
  const { id } = await install(ca, root, { additionalRoots: [root] });
  await taint(ca, "immediately");
  ca.pass(600);
  const isTrusted = (await publishedBundle(ca))?.roots.includes(base64(root)) ?? false;
  const { reasons } = await readiness(ca);
  expect(reasons.some((reason) => reason.includes(id))).toBe(isTrusted);
});
