import { boundTo, formatAuthorityRecord } from "../../../src/custody/authority-record.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { Kek, type KekRing, sealParameters } from "../../../src/custody/kek.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";
import { authorityKey, rootCertificates } from "./certificates.ts";
import { fixedOctets } from "./fixed-octets.ts";

/** The KEK that sealed every record of the corpus. */
export const corpusKeks: KekRing = [await Kek.import("k1", fixedOctets("kek", Kek.octets))];

/** The record of an authority, sealed with an IV that is the same in every run. */
async function authorityRecord(): Promise<StoredRecord> {
  const certificate = new Uint8Array(rootCertificates[0] ?? []);
  const certificates = { certificate, intermediates: [], roots: [certificate] };
  const { id } = await SigningAuthority.create(certificates, tenDays);
  const head = { id, trustDomain: clusterLocal, kek: "k1", schedule: tenDays, ...certificates };
  const iv = fixedOctets("iv", 12);
  const pkcs8 = authorityKey("P-256").privateKey.export({ type: "pkcs8", format: "der" });
  const sealedKey = await crypto.subtle.encrypt(
    sealParameters(new Uint8Array(iv), boundTo(head)),
    await crypto.subtle.importKey("raw", fixedOctets("kek", Kek.octets), "AES-GCM", false, [
      "encrypt",
    ]),
    new Uint8Array(pkcs8),
  );
  const value = formatAuthorityRecord({
    ...head,
    iv: new Uint8Array(iv),
    sealedKey: new Uint8Array(sealedKey),
  });
  return { kind: "authority", id, value };
}

async function statements(): Promise<StoredRecord[]> {
  const [, second] = rootCertificates;
  const { signsFrom: taintedAt, retiresAt } = tenDays;
  const root = await AdditionalRoot.create(new Uint8Array(second ?? []), tenDays.publishedFrom);
  return [
    await Statement.seal(
      "taint",
      { id: root.id, taintedAt, retiresAt },
      { trustDomain: clusterLocal, keks: corpusKeks },
    ),
    await Statement.seal("root", root, { trustDomain: clusterLocal, keks: corpusKeks }),
  ];
}

/** One record of each kind. */
export const corpusRecords: readonly StoredRecord[] = [
  await authorityRecord(),
  ...(await statements()),
];
