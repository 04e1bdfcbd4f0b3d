import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { ownCertificate } from "../../../src/node/serve/serving-certificate.ts";
import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import { taintSigner } from "../../testkit/agent/taint-signer.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";

async function foundedCa(more: object = {}) {
  const ca = await startCa();
  await ca.found();
  const { authorities, leafLifetimes } = ca.certificateAuthority.issuance;
  const own = { dnsNames: ["ca.test"], authorities, leafLifetimes, ...more };
  return { ca, authorities, certificateAt: ownCertificate(own) };
}

/** A CA whose signing authority is tainted. @returns The root behind its own certificate, so many seconds later. */
async function taintedCa(departure: Departure) {
  const { ca, authorities, certificateAt } = await foundedCa();
  const rootAfter = async (seconds: number): Promise<string | undefined> => {
    ca.pass(seconds);
    const leaf = new X509Certificate((await certificateAt(ca.now())).chainPem);
    const { store } = await authorities.at(ca.now());
    return store.authorities.find(({ certificate }) =>
      leaf.checkIssued(new X509Certificate(certificate.der)),
    )?.id;
  };
  const taint = () => taintSigner(ca, departure, ca.now());
  const before = await rootAfter(0);
  expect(await taint()).toBe(before);
  return { before, rootAfter, taint };
}

test("stays below a tainted root of the bundle for five minutes, in which agents learn the next", async () => {
  const { before, rootAfter, taint } = await taintedCa("with-last-leaf");
  for (const seconds of [120, 170]) expect(await rootAfter(seconds)).toBe(before);
  const after = await rootAfter(200);
  expect(after).toBeDefined();
  expect(after).not.toBe(before);
  expect(await taint()).toBe(after);
  expect(await rootAfter(120)).toBe(after);
});

test("is used only once the log has it", async () => {
  const issuanceLog = { record: () => Promise.reject(new Error("the log is full")) };
  const { ca, certificateAt } = await foundedCa({ issuanceLog });
  await expect(certificateAt(ca.now())).rejects.toThrow("the log is full");
});

test("leaves a root at once that the bundle has lost", async () => {
  const { before, rootAfter } = await taintedCa("immediately");
  expect(await rootAfter(120)).not.toBe(before);
});

test("is another one as soon as the clock was set back before its begin", async () => {
  const { ca, certificateAt } = await foundedCa();
  ca.pass(24 * 3600);
  const first = await certificateAt(ca.now());
  expect(await certificateAt(ca.now())).toBe(first);
  // Without the root.
  expect(first.chainPem.match(/BEGIN CERTIFICATE/g)).toHaveLength(1);
  ca.pass(-3600);
  const { chainPem } = await certificateAt(ca.now());
  expect(new X509Certificate(chainPem).validFromDate <= ca.now()).toBe(true);
});
